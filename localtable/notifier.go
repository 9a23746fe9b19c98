package localtable

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// notifyTimeout bounds one notification; what it was for is then found by polling.
const notifyTimeout = 2 * time.Second

// notifier tells the relays of other processes of commits. A process without Run does so too, which is why it is no loop of Run;
// it has a goroutine only while a notification is on its way.
type notifier struct {
	coalescer
	store interface {
		Notify(ctx context.Context) error
	}
	lanes   *lanes // of this process's relay
	unable  atomic.Bool
	trouble *trouble
}

func (r *relay[Tx]) notifier() *notifier {
	n := &notifier{store: r.store, lanes: r.lanes, trouble: newTrouble(r.log)}
	n.act = n.notify
	return n
}

// committed tells of a commit, unless this process's relay is the only one that may send it.
func (n *notifier) committed() {
	if !n.unable.Load() && !n.lanes.complete() {
		n.signal()
	}
}

// notify does not try again after a failure: the rows are found by polling, and after the next commit it is tried anyway.
func (n *notifier) notify() (rest time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	err := n.store.Notify(ctx)
	switch {
	case err == nil:
		n.trouble.worked()
		return 0
	case errors.Is(err, txmsg.ErrUnsupported):
		n.unable.Store(true)
		return 0
	default:
		return n.trouble.failed("notify", err)
	}
}

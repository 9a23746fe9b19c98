package localtable

import (
	"context"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

var _ txmsg.Attempt = (*attempt[any])(nil)

// attempt is one run of a transaction's callback.
type attempt[Tx any] struct {
	txmsg.Collector
	messenger *Messenger[Tx]
	tx        txmsg.Transaction[Tx]
}

// Prepare implements [txmsg.Attempt].
func (a *attempt[Tx]) Prepare(context.Context) ([]txmsg.Statement, error) {
	if len(a.Messages()) == 0 {
		return nil, nil
	}
	return a.messenger.insert(a.Messages())
}

// Resolve implements [txmsg.Attempt].
func (a *attempt[Tx]) Resolve(ctx context.Context) txmsg.Outcome {
	outcome, err := a.tx.Outcome(ctx)
	if err != nil {
		return txmsg.Unknown
	}
	return outcome
}

// End implements [txmsg.Attempt]. What may have committed is looked for.
func (a *attempt[Tx]) End(outcome txmsg.Outcome) {
	if len(a.Messages()) == 0 || outcome == txmsg.RolledBack {
		return
	}
	var written destinations
	for _, msg := range a.Messages() {
		d, err := a.messenger.destinations.of(msg.Topic)
		if err != nil {
			continue // Publish has refused it
		}
		if outcome == txmsg.Committed {
			d.meter.countWritten(msg.Topic)
		}
		if !slices.Contains(written, d) {
			written = append(written, d)
		}
	}
	written.wakeUp()
	a.messenger.others.committed()
}

// sleep reports whether ctx still stood when d was over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

package localtable

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sweeps is a database that answers the first sweep late and with an error, and notes when it was asked.
type sweeps struct {
	takes time.Duration
	asked chan time.Time
}

func (s *sweeps) Sweep(context.Context, string, []Lane, int) (int, error) {
	s.asked <- time.Now()
	time.Sleep(s.takes)
	s.takes = 0
	return 0, errors.New("no answer")
}

func TestSweeperThatRestsIsNotLaterThanItsNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = 10 * time.Second
		store := &sweeps{takes: late, asked: make(chan time.Time, 10)}
		held := newLanes()
		held.renew(Lease{Lanes: []Lane{{Number: 1, Epoch: 1}}}, time.Now().Add(time.Hour))
		asks := make(chan struct{}, 1)
		s := &sweeper{store: store, lanes: held, limit: 10, sweep: asks, found: func() {}, trouble: newTrouble(slog.New(slog.DiscardHandler))}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.run(ctx)
		signal(asks)
		first := <-store.asked
		signal(asks) // while it is swept: it rests for longer than the pause after a failure
		require.Less(t, (<-store.asked).Sub(first), late+15*time.Second)
	})
}

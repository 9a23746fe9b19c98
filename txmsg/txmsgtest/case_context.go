package txmsgtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func contextCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "a context that has ended begins nothing", run: func(t *testing.T, w *world[Tx]) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, w.transact(ctx, w.messenger, w.message("ghost")), context.Canceled)
			w.requireDelivered(t)
		}},
		{name: "a context that ends before COMMIT rolls back and sends nothing", run: func(t *testing.T, w *world[Tx]) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := w.messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				err := w.write(ctx, tx, out, w.message("ghost"))
				cancel()
				return err
			})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
			w.requireDelivered(t)
		}},
		{name: "a context that ends at any moment gets an honest answer", run: testEndAnywhere[Tx]},
	}
}

// testEndAnywhere ends the callers' contexts at moments spread over the usual length of a transaction and a little beyond.
func testEndAnywhere[Tx any](t *testing.T, w *world[Tx]) {
	const warmUp, transactions, workers = 5, 120, 4
	begin := time.Now()
	for range warmUp {
		w.commit(t, w.message("how long does it take"))
	}
	longest := 2 * time.Since(begin) / warmUp

	var mu sync.Mutex
	outcome, msgs := map[string]error{}, []txmsg.Message(nil)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < transactions; i += workers {
				ctx, cancel := context.WithTimeout(t.Context(), longest*time.Duration(i)/transactions)
				m := w.message("ends at any moment")
				err := w.transact(ctx, w.messenger, m)
				cancel()
				mu.Lock()
				outcome[m.ID] = err
				msgs = append(msgs, m)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	w.requireHonest(t, outcome, msgs)
}

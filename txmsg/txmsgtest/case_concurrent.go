package txmsgtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func concurrentCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{{name: "many goroutines, a third rolled back: delivered is committed", run: testConcurrent[Tx]}}
}

// testConcurrent has each worker write its own key, one to three messages a transaction, and roll every third one back in one of the
// ways there are.
func testConcurrent[Tx any](t *testing.T, w *world[Tx]) {
	scale := w.harness.Scale
	committed := make([][]txmsg.Message, scale.Workers)
	failed := make(chan error, scale.Workers)
	var wg sync.WaitGroup
	for worker := range scale.Workers {
		wg.Go(func() {
			for round := range scale.Rounds {
				var msgs []txmsg.Message
				for range 1 + round%3 {
					m := w.message(fmt.Sprintf("worker %d round %d", worker, round))
					m.Key = fmt.Sprintf("%s-%d", w.key, worker)
					msgs = append(msgs, m)
				}
				if (worker+round)%3 == 0 {
					w.rollBack(t.Context(), round, msgs)
					continue
				}
				if err := w.transact(t.Context(), w.messenger, msgs...); err != nil {
					failed <- fmt.Errorf("worker %d round %d: %w", worker, round, err)
					return
				}
				committed[worker] = append(committed[worker], msgs...)
			}
		})
	}
	wg.Wait()
	close(failed)
	require.NoError(t, <-failed)
	var all []txmsg.Message
	for _, msgs := range committed {
		all = append(all, msgs...)
	}
	w.requireDelivered(t, all...)
	if w.harness.Abilities.Order {
		w.requireOrder(t, all...)
	}
}

// rollBack writes msgs and rolls back, by an error, a panic or a context that ends.
func (w *world[Tx]) rollBack(ctx context.Context, way int, msgs []txmsg.Message) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = recover() }()
	_ = w.messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, msgs...); err != nil {
			return err
		}
		switch way % 4 {
		case 0:
			panic(errCallback)
		case 1:
			cancel()
			return nil
		default:
			return errCallback
		}
	})
}

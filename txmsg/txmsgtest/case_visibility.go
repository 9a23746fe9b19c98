package txmsgtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func visibilityCases[Tx any](h Harness[Tx]) []testCase[Tx] {
	all := []testCase[Tx]{{name: "C14 a message that arrives finds its row committed", run: testRowVisible[Tx]}}
	if !h.SingleWriter {
		all = append(all, testCase[Tx]{name: "C14 a message does not leave while its transaction is open", run: testOpenTransaction[Tx]})
	}
	return all
}

// testRowVisible looks for the row at the moment of each arrival. The callback lingers after Publish, so that a message that left
// early has the time to arrive.
func testRowVisible[Tx any](t *testing.T, w *world[Tx]) {
	const transactions, linger = 20, 50 * time.Millisecond
	topic := w.Topic(t)
	var mu sync.Mutex
	early := map[string]bool{}
	var failed error
	in := newReader(t, w.Bundle, topic, func(d received) {
		rows, err := w.Rows(context.Background())
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
		} else if !slices.Contains(rows, d.Message.ID) {
			early[d.Message.ID] = true
		}
	})
	var ids []string
	for range transactions {
		m := w.message("look for my row")
		m.Topic = topic
		ids = append(ids, m.ID)
		require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
			if err := w.write(ctx, tx, out, m); err != nil {
				return err
			}
			_ = in.awaitErr(linger, 1, m.ID)
			return nil
		}))
	}
	in.await(t, w.wait, 1, ids...)
	mu.Lock()
	defer mu.Unlock()
	require.NoError(t, failed, "read the rows")
	require.Empty(t, early, "messages that arrived before their row was committed")
}

// testOpenTransaction commits sentinels while a transaction with a message of the same key is open.
func testOpenTransaction[Tx any](t *testing.T, w *world[Tx]) {
	for _, result := range []error{nil, errCallback} {
		m := w.message("not before the commit")
		published, sentinelsArrived := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				if err := w.write(ctx, tx, out, m); err != nil {
					return err
				}
				close(published)
				select {
				case <-sentinelsArrived:
					return result
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
		select {
		case <-published:
		case err := <-ended:
			require.FailNow(t, "the transaction ended early", "%v", err)
		}
		w.settleOpen(t)
		require.NotContains(t, w.in.ids(), m.ID, "the message arrived while its transaction was open")
		require.NotContains(t, w.rows(t), m.ID)
		close(sentinelsArrived)
		require.ErrorIs(t, <-ended, result)
		if result == nil {
			w.in.await(t, w.wait, 1, m.ID)
		} else {
			w.settle(t)
			require.NotContains(t, w.in.ids(), m.ID, "the message of a rolled-back transaction arrived")
		}
	}
}

// settleOpen is settle without Quiesce, which may wait for the open transaction's message: three sentinels, one after
// the other.
func (w *world[Tx]) settleOpen(t *testing.T) {
	t.Helper()
	for range 3 {
		m := w.message("sentinel")
		require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, _ Tx, out txmsg.Publisher) error {
			return out.Publish(ctx, m)
		}))
		w.in.await(t, w.wait, 1, m.ID)
	}
}

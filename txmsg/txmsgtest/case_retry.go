package txmsgtest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func retryCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "a callback that is run again after a lost race starts with no messages", run: func(t *testing.T, w *world[Tx]) {
			testRunTwice(t, w, fmt.Errorf("first run: %w", txmsg.ErrLostRace))
		}},
		{
			name:  "a callback that is run again after a conflict starts with no messages",
			needs: func(h Hooks[Tx]) bool { return h.Conflict != nil },
			run: func(t *testing.T, w *world[Tx]) {
				testRunTwice(t, w, fmt.Errorf("first run: %w", w.Conflict))
			},
		},
		{
			name:  "C15 transactions that conflict send one message for each call",
			needs: func(h Hooks[Tx]) bool { return h.Contend != nil },
			run:   testContend[Tx],
		},
	}
}

func testRunTwice[Tx any](t *testing.T, w *world[Tx], again error) {
	var runs int
	kept := w.message("second run")
	unnamed := w.message("no id")
	unnamed.ID = ""
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		runs++
		if err := out.Publish(ctx, unnamed); err != nil {
			return err
		}
		if runs == 1 {
			if err := w.write(ctx, tx, out, w.message("ghost")); err != nil {
				return err
			}
			return again
		}
		return w.write(ctx, tx, out, kept)
	}))
	require.Equal(t, 2, runs)
	w.requireRows(t, kept)
	w.in.await(t, w.wait, 1, kept.ID)
	sentinels := w.settle(t)
	// kept, and one for the message that both runs published without an ID.
	require.Len(t, w.in.ids(), 2+len(sentinels), "distinct messages")
}

func testContend[Tx any](t *testing.T, w *world[Tx]) {
	const calls = 2
	var mu sync.Mutex
	var runs int
	var met sync.WaitGroup // both calls have read, or ended, before one of them writes
	met.Add(calls)
	msgs := []txmsg.Message{w.message("first call"), w.message("second call")}
	errs := make(chan error, calls)
	for _, m := range msgs {
		go func() {
			arrive := sync.OnceFunc(met.Done)
			defer arrive()
			meet := func() {
				arrive()
				met.Wait()
			}
			errs <- w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				mu.Lock()
				runs++
				mu.Unlock()
				if err := w.write(ctx, tx, out, m); err != nil {
					return err
				}
				return w.Contend(ctx, tx, meet)
			})
		}()
	}
	for range calls {
		require.NoError(t, <-errs)
	}
	require.Greater(t, runs, calls, "the transactions did not conflict: the case shows nothing")
	w.requireDelivered(t, msgs...)
}

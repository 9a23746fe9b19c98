package txmsgtest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

var errCallback = errors.New("the callback's own error")

func atomicCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "commit delivers", run: func(t *testing.T, w *world[Tx]) {
			require.Equal(t, w.harness.Abilities, w.messenger.Abilities(), "declared abilities")
			m := w.message("paid")
			w.commit(t, m)
			w.requireDelivered(t, m)
		}},
		{name: "several messages of one call and of several calls all arrive", run: testSeveralMessages[Tx]},
		{name: "a transaction without messages commits", run: func(t *testing.T, w *world[Tx]) {
			id := txmsg.NewID()
			require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				if err := out.Publish(ctx); err != nil {
					return err
				}
				return w.Write(ctx, tx, id)
			}))
			require.Equal(t, []string{id}, w.rows(t))
			w.requireArrived(t, 1)
		}},
		{name: "rollback sends nothing", run: func(t *testing.T, w *world[Tx]) {
			err := w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				if err := w.write(ctx, tx, out, w.message("ghost"), w.message("ghost")); err != nil {
					return err
				}
				return errCallback
			})
			require.ErrorIs(t, err, errCallback)
			require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
			w.requireDelivered(t)
		}},
		{name: "panic in the callback rolls back, sends nothing and goes on up", run: testPanic[Tx]},
		{name: "an ended goroutine in the callback rolls back and sends nothing", run: testGoexit[Tx]},
	}
}

func testSeveralMessages[Tx any](t *testing.T, w *world[Tx]) {
	var all []txmsg.Message
	for range 3 {
		all = append(all, w.message("one"), w.message("two"), w.message("three"))
	}
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		for i := 0; i < len(all); i += 3 {
			if err := w.write(ctx, tx, out, all[i:i+3]...); err != nil {
				return err
			}
		}
		return nil
	}))
	w.requireDelivered(t, all...)
}

func testPanic[Tx any](t *testing.T, w *world[Tx]) {
	for range 3 { // a connection that stayed behind would show on a small pool
		require.PanicsWithValue(t, "the callback's panic", func() {
			_ = w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				if err := w.write(ctx, tx, out, w.message("ghost")); err != nil {
					return err
				}
				panic("the callback's panic")
			})
		})
	}
	m := w.message("after the panic")
	w.commit(t, m)
	w.requireDelivered(t, m)
}

func testGoexit[Tx any](t *testing.T, w *world[Tx]) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
			if err := w.write(ctx, tx, out, w.message("ghost")); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
	}()
	<-done
	m := w.message("after the end")
	w.commit(t, m)
	w.requireDelivered(t, m)
}

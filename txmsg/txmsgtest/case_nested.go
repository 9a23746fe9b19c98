package txmsgtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func nestedCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "a message of a rolled-back nested transaction is not sent", run: testNestedRollback[Tx]},
		{name: "a message of a committed nested transaction is sent with the outer one", run: testNestedCommit[Tx]},
		{name: "nested in nested: each rollback forgets its own messages", run: testNestedTwice[Tx]},
	}
}

func testNestedRollback[Tx any](t *testing.T, w *world[Tx]) {
	before, after := w.message("before"), w.message("after")
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, before); err != nil {
			return err
		}
		err := w.Nested(ctx, tx, out, func(ctx context.Context, tx Tx) error {
			if err := w.write(ctx, tx, out, w.message("ghost"), w.message("ghost")); err != nil {
				return err
			}
			return errCallback
		})
		require.ErrorIs(t, err, errCallback)
		return w.write(ctx, tx, out, after)
	}))
	w.requireDelivered(t, before, after)
}

func testNestedCommit[Tx any](t *testing.T, w *world[Tx]) {
	nested := func(m txmsg.Message, result error) error {
		return w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
			err := w.Nested(ctx, tx, out, func(ctx context.Context, tx Tx) error { return w.write(ctx, tx, out, m) })
			require.NoError(t, err)
			return result
		})
	}
	kept := w.message("kept")
	require.NoError(t, nested(kept, nil))
	require.ErrorIs(t, nested(w.message("ghost"), errCallback), errCallback)
	w.requireDelivered(t, kept)
}

func testNestedTwice[Tx any](t *testing.T, w *world[Tx]) {
	var kept []txmsg.Message
	keep := func(body string) txmsg.Message {
		m := w.message(body)
		kept = append(kept, m)
		return m
	}
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		nested := func(ctx context.Context, tx Tx, result error, fn func(ctx context.Context, tx Tx) error) {
			err := w.Nested(ctx, tx, out, func(ctx context.Context, tx Tx) error {
				if err := fn(ctx, tx); err != nil {
					return err
				}
				return result
			})
			require.Equal(t, result, err)
		}
		// The inner one fails, the outer one stands.
		nested(ctx, tx, nil, func(ctx context.Context, tx Tx) error {
			if err := w.write(ctx, tx, out, keep("outer, before")); err != nil {
				return err
			}
			nested(ctx, tx, errCallback, func(ctx context.Context, tx Tx) error { return w.write(ctx, tx, out, w.message("ghost")) })
			return w.write(ctx, tx, out, keep("outer, after"))
		})
		// The inner one stands, the outer one fails and takes it along.
		nested(ctx, tx, errCallback, func(ctx context.Context, tx Tx) error {
			nested(ctx, tx, nil, func(ctx context.Context, tx Tx) error { return w.write(ctx, tx, out, w.message("ghost")) })
			return w.write(ctx, tx, out, w.message("ghost"))
		})
		return w.write(ctx, tx, out, keep("last"))
	}))
	w.requireDelivered(t, kept...)
}

package txmsgtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func publisherCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "Transact inside the callback is refused", run: func(t *testing.T, w *world[Tx]) {
			m := w.message("outer")
			require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				require.ErrorIs(t, w.transact(ctx, w.messenger, w.message("ghost")), txmsg.ErrNested)
				return w.write(ctx, tx, out, m)
			}))
			w.requireDelivered(t, m)
		}},
		{name: "Publish after the callback is refused", run: func(t *testing.T, w *world[Tx]) {
			var kept txmsg.Publisher
			m := w.message("in time")
			require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				kept = out
				return w.write(ctx, tx, out, m)
			}))
			require.ErrorIs(t, kept.Publish(t.Context(), w.message("ghost")), txmsg.ErrPublisherClosed)
			w.requireDelivered(t, m)
		}},
		{name: "a refused message takes its call along and leaves the transaction usable", run: testRefusedMessage[Tx]},
		{name: "Publish keeps no reference to the caller's memory", run: testNoReference[Tx]},
		{name: "a message without an ID gets one that is its own", run: testGeneratedIDs[Tx]},
	}
}

func testRefusedMessage[Tx any](t *testing.T, w *world[Tx]) {
	good := w.message("good")
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		bad := w.message("bad")
		bad.Topic = "no topic\n"
		var invalid *txmsg.InvalidMessageError
		require.ErrorAs(t, out.Publish(ctx, w.message("ghost"), bad, w.message("ghost")), &invalid)
		require.Equal(t, "Topic", invalid.Field)
		return w.write(ctx, tx, out, good)
	}))
	w.requireDelivered(t, good)
}

func testNoReference[Tx any](t *testing.T, w *world[Tx]) {
	m := w.message("body as it was published")
	m.Headers = map[string]string{"name": "as it was published"}
	given := m.Clone()
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, given); err != nil {
			return err
		}
		clear(given.Body)
		given.Headers["name"] = "changed"
		given.Headers["more"] = "changed"
		return nil
	}))
	w.requireDelivered(t, m)
}

func testGeneratedIDs[Tx any](t *testing.T, w *world[Tx]) {
	const messages = 3
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, _ Tx, out txmsg.Publisher) error {
		for range messages {
			m := w.message("no id")
			m.ID = ""
			if err := out.Publish(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}))
	sentinels := w.settle(t)
	ids := w.in.ids()
	require.NotContains(t, ids, "")
	require.Len(t, ids, messages+len(sentinels), "distinct IDs")
}

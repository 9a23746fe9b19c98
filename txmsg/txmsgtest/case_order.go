package txmsgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func orderCases[Tx any](h Harness[Tx]) []testCase[Tx] {
	if !h.Abilities.Order {
		return nil
	}
	return []testCase[Tx]{
		{name: "messages of one key keep the order of their transactions", run: testOrder[Tx]},
		{name: "messages of one key keep their order within a transaction", run: func(t *testing.T, w *world[Tx]) {
			var msgs []txmsg.Message
			for i := range 50 {
				msgs = append(msgs, w.message(fmt.Sprint(i)))
			}
			require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				if err := w.write(ctx, tx, out, msgs[:20]...); err != nil {
					return err
				}
				return w.write(ctx, tx, out, msgs[20:]...)
			}))
			w.requireDelivered(t, msgs...)
			w.requireOrder(t, msgs...)
		}},
	}
}

// testOrder interleaves many keys over transactions that follow each other, each with messages of several keys.
func testOrder[Tx any](t *testing.T, w *world[Tx]) {
	const keys, rounds = 20, 8
	var all []txmsg.Message
	for round := range rounds {
		for first := range keys / 2 {
			var msgs []txmsg.Message
			for _, key := range []int{first, keys - 1 - first, first} {
				m := w.message(fmt.Sprintf("round %d", round))
				m.Key = fmt.Sprintf("%s-%d", w.key, key)
				m.Sequence = int64(len(all) + len(msgs) + 1)
				msgs = append(msgs, m)
			}
			w.commit(t, msgs...)
			all = append(all, msgs...)
		}
	}
	w.requireDelivered(t, all...)
	w.requireOrder(t, all...)
}

// requireOrder requires that the first copies of want have arrived in their order, key by key.
func (w *world[Tx]) requireOrder(t *testing.T, want ...txmsg.Message) {
	t.Helper()
	wanted, byKey := map[string]bool{}, map[string][]string{}
	for _, m := range want {
		wanted[m.ID] = true
		byKey[m.Key] = append(byKey[m.Key], m.ID)
	}
	got := map[string][]string{}
	all, _ := w.in.all()
	for _, d := range all {
		if id := d.Message.ID; wanted[id] {
			wanted[id] = false
			got[d.Message.Key] = append(got[d.Message.Key], id)
		}
	}
	for key, ids := range byKey {
		require.Equal(t, ids, got[key], "order of key %s", key)
	}
}

func delayCases[Tx any](h Harness[Tx]) []testCase[Tx] {
	if h.Abilities.Delay {
		return []testCase[Tx]{{name: "C08 a delayed message does not arrive before its time", run: testDelay[Tx]}}
	}
	return []testCase[Tx]{{name: "C08 a delay is refused as unsupported and nothing is stored", run: testNoDelay[Tx]}}
}

func testDelay[Tx any](t *testing.T, w *world[Tx]) {
	const delay = 1500 * time.Millisecond
	late, prompt := w.message("late"), w.message("prompt")
	late.Delay = delay
	begin := time.Now()
	w.commit(t, late, prompt)
	w.requireDelivered(t, late, prompt)
	all, _ := w.in.all()
	for _, d := range all {
		if d.Message.ID == late.ID {
			require.GreaterOrEqual(t, d.at.Sub(begin), delay, "time from before the transaction to the arrival")
		}
	}
}

func testNoDelay[Tx any](t *testing.T, w *world[Tx]) {
	prompt := w.message("prompt")
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		late := w.message("ghost")
		late.Delay = 3 * time.Second
		var unsupported *txmsg.UnsupportedError
		require.ErrorAs(t, out.Publish(ctx, w.message("ghost"), late), &unsupported)
		require.ErrorIs(t, unsupported, txmsg.ErrUnsupported)
		require.Equal(t, "Delay", unsupported.Ability)
		return w.write(ctx, tx, out, prompt)
	}))
	err := w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		late := w.message("ghost")
		late.Delay = 3 * time.Second
		return w.write(ctx, tx, out, late)
	})
	require.ErrorIs(t, err, txmsg.ErrUnsupported)
	w.requireDelivered(t, prompt)
}

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func decideUnparkTests[Tx any](operator localtable.OperatorStore) []test[Tx] {
	if operator == nil {
		return nil
	}
	var tests []test[Tx]
	for _, verb := range []localtable.Verb{localtable.VerbSkip, localtable.VerbRelease} {
		for _, sentence := range []struct {
			name string
			run  func(*testing.T, *bench[Tx], localtable.Verb)
		}{
			{"frees what waited for the row, in order", unparkAll[Tx]},
			{"frees no further than the next head", unparkToHead[Tx]},
			{"frees nothing behind an earlier head", unparkBehindHead[Tx]},
			{"frees at most so many of each key; the rest follow by the sweep", unparkBounded[Tx]},
			{"frees no other key and no other destination", unparkOthers[Tx]},
			{"of two heads of a key frees what waited for both", unparkTwo[Tx]},
		} {
			run := func(t *testing.T, b *bench[Tx]) { sentence.run(t, b, verb) }
			tests = append(tests, test[Tx]{fmt.Sprintf("%s %s", verb, sentence.name), run})
		}
	}
	return append(tests, test[Tx]{"retry frees nothing", unparkNotByRetry[Tx]})
}

// deadHead writes a key's rows, lets the first die and hold, and parks the others.
func deadHead[Tx any](b *bench[Tx], lanes []localtable.Lane, key string, ids ...string) {
	b.t.Helper()
	b.write(keyed(key, ids...)...)
	rows := b.read(lanes, most)
	var behind []localtable.Row
	for _, id := range ids[1:] {
		behind = append(behind, b.row(rows, id))
	}
	b.settle(len(ids), settlement(lanes, results(one(died(b.row(rows, ids[0]))), parkedBehind(behind...))...))
}

func unparkAll[Tx any](t *testing.T, b *bench[Tx], verb localtable.Verb) {
	lanes := b.all()
	deadHead(b, lanes, "k", "a", "b", "c", "d")
	parked := b.held("b")
	b.decide(1, verb, b.held("a"))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b", "c", "d"}, ids(rows))
	require.Empty(t, followers(rows))
	b.settle(1, settlement(lanes, retried(rows[0], time.Hour)))
	require.Greater(t, b.held("b").Revision, parked.Revision)
	b.settle(2, settlement(lanes, delivered(rows[1:]...)...))
}

func unparkToHead[Tx any](t *testing.T, b *bench[Tx], verb localtable.Verb) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c", "d")...)
	rows := b.read(lanes, most)
	b.settle(4, settlement(lanes, results(
		one(died(rows[0])), parkedBehind(rows[1]), one(died(rows[2])), parkedBehind(rows[3]),
	)...))
	b.decide(1, verb, b.held("a"))
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
	require.Equal(t, localtable.StateParked, b.held("d").State)
	require.Zero(t, b.sweep(lanes, most))
}

func unparkBehindHead[Tx any](t *testing.T, b *bench[Tx], verb localtable.Verb) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c")...)
	rows := b.read(lanes, most)
	b.settle(3, settlement(lanes, results(one(retried(rows[0], time.Hour)), one(died(rows[1])), parkedBehind(rows[2]))...))
	b.decide(1, verb, b.held("b"))
	require.Empty(t, b.read(lanes, most))
	b.settle(1, settlement(lanes, delivered(b.due(lanes, "a")...)...))
	require.Equal(t, []string{"c"}, ids(b.read(lanes, most)))
}

func unparkBounded[Tx any](t *testing.T, b *bench[Tx], verb localtable.Verb) {
	lanes := b.all()
	deadHead(b, lanes, "k1", "a", "b", "c", "d")
	deadHead(b, lanes, "k2", "x", "y", "z")
	b.write(keyed("k1", "e")...)
	b.decideUnparking(2, verb, 1, b.held("a"), b.held("x"))
	rows := b.read(lanes, most)
	require.ElementsMatch(t, []string{"b", "y", "e"}, ids(rows))
	require.Equal(t, []string{"e"}, followers(rows), "c and d stand between")
	require.Equal(t, 3, b.sweep(lanes, most))
	rows = b.read(lanes, most)
	require.Equal(t, []string{"b", "c", "d", "y", "z", "e"}, ids(rows))
	require.Empty(t, followers(rows))
}

func unparkOthers[Tx any](t *testing.T, b *bench[Tx], verb localtable.Verb) {
	lanes := b.all()
	deadHead(b, lanes, "k1", "a", "b")
	deadHead(b, lanes, "k2", "c", "d")
	b.writeTo("elsewhere", keyed("k1", "e", "f")...)
	rows, err := b.Store.Read(b.ctx, "elsewhere", lanes, most)
	require.NoError(t, err)
	b.settle(2, settlement(lanes, results(one(died(rows[0])), parkedBehind(rows[1]))...))
	b.decide(1, verb, b.held("a"))
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
	require.Equal(t, []string{"d", "f"}, heldIDs(b.find(localtable.Filter{States: []localtable.State{localtable.StateParked}})))
}

func unparkTwo[Tx any](t *testing.T, b *bench[Tx], verb localtable.Verb) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c", "d")...)
	rows := b.read(lanes, most)
	b.settle(4, settlement(lanes, results(
		one(died(rows[0])), parkedBehind(rows[1]), one(died(rows[2])), parkedBehind(rows[3]),
	)...))
	b.decide(2, verb, b.held("c"), b.held("a"))
	rows = b.read(lanes, most)
	require.Equal(t, []string{"b", "d"}, ids(rows))
	require.Empty(t, followers(rows))
}

func unparkNotByRetry[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	deadHead(b, lanes, "k", "a", "b")
	b.decide(1, localtable.VerbRetry, b.held("a"))
	require.Equal(t, []string{"a"}, ids(b.read(lanes, most)))
	require.Zero(t, b.sweep(lanes, most))
}

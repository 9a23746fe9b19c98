package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func sweepTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"parked rows without a head before them become ready, in order, at most so many", sweepBounded[Tx]},
		{"parked rows behind a head stay, due or not", sweepKeeps[Tx]},
		{"of lanes that the owner lost changes nothing", sweepFenced[Tx]},
		{"of these lanes and no other", sweepLanes[Tx]},
	}
}

// orphans leaves n parked rows whose head is gone.
func orphans[Tx any](b *bench[Tx], lanes []localtable.Lane, ids ...string) {
	b.t.Helper()
	stuck(b, lanes, "k", len(ids)-1, ids...)
	s := settlement(lanes, delivered(b.due(lanes, ids[0])...)...)
	s.Unpark = 0
	b.settle(1, s)
	require.Empty(b.t, b.read(lanes, most))
}

func sweepBounded[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	orphans(b, lanes, "a", "b", "c", "d", "e")
	require.Equal(t, 3, b.sweep(lanes, 3))
	require.Equal(t, []string{"b", "c", "d"}, ids(b.read(lanes, most)))
	require.Equal(t, 1, b.sweep(lanes, 3))
	require.Zero(t, b.sweep(lanes, 3))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b", "c", "d", "e"}, ids(rows))
	require.Empty(t, followers(rows))
}

func sweepKeeps[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 2, "a", "b", "c")
	require.Zero(t, b.sweep(lanes, most))
	b.Age(t, "a", 2*time.Hour)
	require.Zero(t, b.sweep(lanes, most), "a retry that is due is still failed")
	require.Equal(t, localtable.Status{Retry: 1, Parked: 2}, b.status())
}

func sweepFenced[Tx any](t *testing.T, b *bench[Tx]) {
	lost := b.all()
	orphans(b, lost, "a", "b")
	b.Expire(t, owner)
	taken := b.lease(other).Lanes
	require.Zero(t, b.sweep(lost, most))
	require.Zero(t, b.sweep(taken, most), "the new epoch, told by the old owner")
	swept, err := b.Store.Sweep(b.ctx, other, taken, most)
	require.NoError(t, err)
	require.Equal(t, 1, swept)
}

func sweepLanes[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	orphans(b, lanes, "a", "b")
	swept := 0
	for _, lane := range lanes {
		swept += b.sweep([]localtable.Lane{lane}, most)
	}
	require.Equal(t, 1, swept)
	row := b.read(lanes, most)[0]
	b.settle(1, settlement(lanes, retried(row, time.Hour)))
	require.Zero(t, b.sweep(nil, most), "no lanes, no rows")
}

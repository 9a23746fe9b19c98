package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func deadTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"a dead row is never read", deadNotRead[Tx]},
		{"a head that dies and holds keeps its key", deadHolds[Tx]},
		{"followers are parked behind a head that dies and holds in the same settlement", deadHoldsTogether[Tx]},
		{"a head that dies and does not hold frees its key", deadReleases[Tx]},
		{"a row is not parked behind a dead row that does not hold", deadParksNothing[Tx]},
		{"a dead row has spent an attempt and tells its error", deadHistory[Tx]},
	}
}

func deadNotRead[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k1", "a")...)
	b.write(keyed("k2", "b")...)
	b.settle(1, settlement(lanes, died(b.row(b.read(lanes, most), "a"))))
	b.Age(t, "a", 48*time.Hour)
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
	require.Zero(t, b.sweep(lanes, most))
	require.Equal(t, localtable.Status{Ready: 1, Dead: 1}, b.status())
}

func deadHolds[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 1, "a", "b", "c")
	b.settle(1, settlement(lanes, died(b.row(b.due(lanes, "a"), "a"))))
	require.Zero(t, b.sweep(lanes, most))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"c"}, followers(rows))
	b.settle(1, settlement(lanes, parkedBehind(rows...)...))
	require.Zero(t, b.sweep(lanes, most))
	require.Equal(t, localtable.Status{Parked: 2, Dead: 1}, b.status())
}

func deadHoldsTogether[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c")...)
	rows := b.read(lanes, most)
	b.settle(3, settlement(lanes, results(one(died(rows[0])), parkedBehind(rows[1], rows[2]))...))
	require.Empty(t, b.read(lanes, most))
	require.Zero(t, b.sweep(lanes, most))
}

func deadReleases[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 2, "a", "b", "c")
	s := settlement(lanes, died(b.row(b.due(lanes, "a"), "a")))
	s.DeadHolds = false
	b.settle(1, s)
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b", "c"}, ids(rows))
	require.Empty(t, followers(rows))
	require.Equal(t, localtable.Status{Ready: 2, Dead: 1}, b.status())
}

func deadParksNothing[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b")...)
	rows := b.read(lanes, most)
	s := settlement(lanes, results(one(died(rows[0])), parkedBehind(rows[1]))...)
	s.DeadHolds = false
	b.settle(1, s)
	rows = b.read(lanes, most)
	require.Equal(t, []string{"b"}, ids(rows))
	require.Empty(t, followers(rows))
}

func deadHistory[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	b.settle(1, settlement(lanes, retried(b.read(lanes, most)[0], 0)))
	row := b.read(lanes, most)[0]
	require.Equal(t, 1, row.Attempts)
	b.settle(1, settlement(lanes, died(row)))
	require.Equal(t, []string{"refused once", "refused for good"}, b.Errors(t, "a"))
}

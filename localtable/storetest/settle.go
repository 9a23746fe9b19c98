package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func settleTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"delivered rows leave the table of unsent rows", settleDelivered[Tx]},
		{"one settlement with every fate", settleMixed[Tx]},
		{"a row without a result stays as it is", settleNothing[Tx]},
		{"a retry spends an attempt and grows the revision", settleRetry[Tx]},
		{"a retry that is spared spends no attempt, and holds its key as any", settleSpared[Tx]},
		{"the history keeps the last errors, newest last", settleHistory[Tx]},
		{"a thousand results", settleMany[Tx]},
	}
}

func fenceTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"C22 a late settlement after a takeover changes nothing", fenceTakeover[Tx]},
		{"C22 a late settlement does not touch a row that just finished", fenceFinished[Tx]},
		{"the same settlement twice counts once", fenceTwice[Tx]},
		{"a released lane is not settled", fenceReleased[Tx]},
		{"an old epoch of the same owner is not settled", fenceOldEpoch[Tx]},
		{"rows of lanes that the settlement does not name are not settled", fenceOtherLane[Tx]},
		{"one row that someone else decided does not stop the others", fenceOneOfMany[Tx]},
	}
}

func settleDelivered[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c")...)
	rows := b.read(lanes, most)
	b.settle(2, settlement(lanes, delivered(rows[0], rows[1])...))
	require.Equal(t, []string{"c"}, ids(b.read(lanes, most)))
	require.Equal(t, localtable.Status{Ready: 1}, b.status())
}

func settleMixed[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k1", "sent")...)
	b.write(keyed("k2", "again", "behind")...)
	b.write(keyed("k3", "dead")...)
	b.write(keyed("k4", "untouched")...)
	rows := b.read(lanes, most)
	b.settle(4, settlement(lanes,
		delivered(b.row(rows, "sent"))[0], retried(b.row(rows, "again"), time.Hour),
		parkedBehind(b.row(rows, "behind"))[0], died(b.row(rows, "dead")),
	))
	require.Equal(t, localtable.Status{Ready: 1, Retry: 1, Parked: 1, Dead: 1}, b.status())
	require.Equal(t, []string{"untouched"}, ids(b.read(lanes, most)))
}

func settleNothing[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	before := b.read(lanes, most)
	b.settle(0, settlement(lanes))
	require.Equal(t, before, b.read(lanes, most))
}

func settleRetry[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	for attempt := range 3 {
		row := b.read(lanes, most)[0]
		require.Equal(t, attempt, row.Attempts)
		b.settle(1, settlement(lanes, retried(row, time.Hour)))
		b.Age(t, "a", 2*time.Hour)
		require.Greater(t, b.read(lanes, most)[0].Revision, row.Revision)
	}
}

func settleSpared[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b")...)
	rows := b.read(lanes, most)
	b.settle(1, settlement(lanes, retried(rows[0], 0)))
	for _, text := range []string{"", "no route", ""} {
		row := b.row(b.read(lanes, most), "a")
		b.settle(1, settlement(lanes, localtable.Result{Row: row, Fate: localtable.Retry, Spared: true, Error: text, Class: "no_route"}))
	}
	row := b.row(b.read(lanes, most), "a")
	require.Equal(t, 1, row.Attempts)
	require.Equal(t, []string{"refused once", "no route"}, b.Errors(t, "a"))

	b.settle(1, settlement(lanes, localtable.Result{Row: row, Fate: localtable.Retry, Spared: true, After: time.Hour}))
	require.Equal(t, []string{"b"}, followers(b.read(lanes, most)))
	row = b.row(b.due(lanes, "a"), "a")
	b.settle(1, settlement(lanes, retried(row, 0)))
	require.Equal(t, 2, b.row(b.read(lanes, most), "a").Attempts)

	b.write(keyed("fresh", "c")...)
	row = b.row(b.read(lanes, most), "c")
	b.settle(1, settlement(lanes, localtable.Result{Row: row, Fate: localtable.Retry, Spared: true}))
	require.Zero(t, b.row(b.read(lanes, most), "c").Attempts)
	require.Empty(t, b.Errors(t, "c"))
}

func settleHistory[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	text := func(i int) string { return fmt.Sprintf(`refusal %d: "ünïcode" '%s'`, i, strings.Repeat("x", 500)) }
	for i := range 5 {
		result := retried(b.read(lanes, most)[0], 0)
		result.Error = text(i)
		s := settlement(lanes, result)
		s.Errors = 3
		b.settle(1, s)
	}
	require.Equal(t, []string{text(2), text(3), text(4)}, b.Errors(t, "a"))
}

func settleMany[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 1000)...)
	b.settle(1000, settlement(lanes, delivered(b.read(lanes, 1000)...)...))
	require.Equal(t, localtable.Status{}, b.status())
	require.Equal(t, 1000, b.kept())
}

// everyFate settles row in each way there is.
func everyFate(row localtable.Row) [][]localtable.Result {
	return [][]localtable.Result{delivered(row), one(retried(row, time.Hour)), one(died(row)), parkedBehind(row)}
}

func fenceTakeover[Tx any](t *testing.T, b *bench[Tx]) {
	lost := b.all()
	b.write(keyed("k", "a", "b")...)
	rows := b.read(lost, most)
	b.Expire(t, owner)
	taken := b.lease(other).Lanes
	for _, row := range rows {
		for _, results := range everyFate(row) {
			b.settle(0, settlement(lost, results...))
		}
		stolen := settlement(taken, delivered(row)...) // the new epoch, told by the old owner
		b.settle(0, stolen)
	}
	require.Equal(t, rows, b.read(taken, most), "rows changed")
	require.Zero(t, b.kept())

	s := settlement(taken, delivered(rows...)...)
	s.Owner = other
	b.settle(2, s)
}

func fenceFinished[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	stale := b.read(lanes, most)[0]
	b.settle(1, settlement(lanes, delivered(stale)...))
	for _, results := range everyFate(stale) {
		b.settle(0, settlement(lanes, results...))
	}
	require.Equal(t, localtable.Status{}, b.status())
	require.Equal(t, 1, b.kept())
}

func fenceTwice[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	s := settlement(lanes, retried(b.read(lanes, most)[0], 0))
	b.settle(1, s)
	b.settle(0, s)
	row := b.read(lanes, most)[0]
	require.Equal(t, 1, row.Attempts)
	require.Len(t, b.Errors(t, "a"), 1)

	s = settlement(lanes, delivered(row)...)
	b.settle(1, s)
	b.settle(0, s)
	require.Equal(t, 1, b.kept())
}

func fenceReleased[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	row := b.read(lanes, most)[0]
	require.NoError(t, b.Store.Release(b.ctx, owner, lanes...))
	b.settle(0, settlement(lanes, delivered(row)...))
	require.Equal(t, localtable.Status{Ready: 1}, b.status())
}

func fenceOldEpoch[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	row := b.read(lanes, most)[0]
	require.NoError(t, b.Store.Release(b.ctx, owner))
	again := b.all()
	b.settle(0, settlement(lanes, delivered(row)...))
	b.settle(1, settlement(again, delivered(row)...))
}

func fenceOtherLane[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	row := b.read(lanes, most)[0]
	var others []localtable.Lane
	for _, lane := range lanes {
		if lane.Number != row.Lane {
			others = append(others, lane)
		}
	}
	b.settle(0, settlement(others, delivered(row)...))
	require.Equal(t, localtable.Status{Ready: 1}, b.status())
}

func fenceOneOfMany[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 10)...)
	rows := b.read(lanes, most)
	b.settle(1, settlement(lanes, delivered(rows[3])...))
	b.settle(9, settlement(lanes, delivered(rows...)...))
	require.Equal(t, 10, b.kept())
}

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func parkTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"what comes after a head of its key is a follower, and nothing else is", parkFollowers[Tx]},
		{"what comes after a parked row is a follower too", parkFollowersOfParked[Tx]},
		{"what comes before a head is no follower", parkBefore[Tx]},
		{"rows without a key do not follow each other", parkNoKey[Tx]},
		{"a due head that is among the rows makes no followers", parkDueHead[Tx]},
		{"a due head that the limit cuts off makes followers", parkCutHead[Tx]},
		{"the head's failure and its followers are settled together", parkTogether[Tx]},
		{"the settlement that delivers the head unparks in order", parkUnpark[Tx]},
		{"it unparks at most so many; the rest follow until the sweep", parkUnparkBounded[Tx]},
		{"what comes after the rest is parked too", parkBehindParked[Tx]},
		{"it shares what it unparks among the keys whose heads it settles", parkUnparkShared[Tx]},
		{"it unparks nothing behind another head", parkUnparkSecondHead[Tx]},
		{"a row is not parked when its head is no longer failed", parkRefused[Tx]},
		{"a row is not parked when its head is delivered by the same settlement", parkRefusedTogether[Tx]},
		{"a row is not parked behind one that the same settlement unparks", parkRace[Tx]},
	}
}

// stuck writes a key's rows, fails the first and parks so many behind it.
func stuck[Tx any](b *bench[Tx], lanes []localtable.Lane, key string, parked int, ids ...string) {
	b.t.Helper()
	b.write(keyed(key, ids...)...)
	rows := b.read(lanes, most)
	var behind []localtable.Row
	for _, id := range ids[1 : 1+parked] {
		behind = append(behind, b.row(rows, id))
	}
	b.settle(1+parked, settlement(lanes, results(one(retried(b.row(rows, ids[0]), time.Hour)), parkedBehind(behind...))...))
}

// due makes the head due and reads.
func (b *bench[Tx]) due(lanes []localtable.Lane, head string) []localtable.Row {
	b.t.Helper()
	b.Age(b.t, head, 2*time.Hour)
	return b.read(lanes, most)
}

func parkFollowers[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k1", 0, "a", "b", "c")
	b.write(keyed("k2", "free")...)
	rows := b.read(lanes, most)
	require.ElementsMatch(t, []string{"b", "c", "free"}, ids(rows))
	require.Equal(t, []string{"b", "c"}, followers(rows))
}

func parkFollowersOfParked[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 1, "a", "b", "c")
	require.Equal(t, []string{"c"}, followers(b.read(lanes, most)))
	rows := b.due(lanes, "a")
	require.Equal(t, []string{"a", "c"}, ids(rows))
	require.Equal(t, []string{"c"}, followers(rows), "b is parked and stands between")
}

func parkBefore[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c")...)
	b.settle(1, settlement(lanes, retried(b.row(b.read(lanes, most), "b"), time.Hour)))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"a", "c"}, ids(rows))
	require.Equal(t, []string{"c"}, followers(rows))
}

func parkNoKey[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "", 0, "a", "b", "c")
	rows := b.read(lanes, most)
	require.ElementsMatch(t, []string{"b", "c"}, ids(rows))
	require.Empty(t, followers(rows))
	require.False(t, b.row(b.due(lanes, "a"), "a").Head, "what has no key has nobody behind it")
	b.settle(0, settlement(lanes, parkedBehind(rows...)...))
	require.Equal(t, localtable.Status{Ready: 2, Retry: 1}, b.status())
}

func parkDueHead[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 0, "a", "b", "c")
	rows := b.due(lanes, "a")
	require.Equal(t, []string{"a", "b", "c"}, ids(rows))
	require.Empty(t, followers(rows))
}

func parkCutHead[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 0, "a", "b")
	b.Age(t, "a", 2*time.Hour)
	rows := b.read(lanes, 1)
	require.Len(t, rows, 1)
	if rows[0].Message.ID == "b" {
		require.True(t, rows[0].Follower, "b overtakes a")
	}
}

func parkTogether[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 3, "a", "b", "c", "d")
	require.Empty(t, b.read(lanes, most))
	require.Equal(t, localtable.Status{Retry: 1, Parked: 3}, b.status())
	require.Equal(t, []string{"a"}, ids(b.due(lanes, "a")), "parked rows are not read")
}

func parkUnpark[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 3, "a", "b", "c", "d")
	b.settle(1, settlement(lanes, delivered(b.due(lanes, "a")...)...))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b", "c", "d"}, ids(rows))
	require.Empty(t, followers(rows))
	b.settle(3, settlement(lanes, delivered(rows...)...))
}

func parkUnparkBounded[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 4, "a", "b", "c", "d", "e", "f")
	s := settlement(lanes, delivered(b.row(b.due(lanes, "a"), "a"))...)
	s.Unpark = 2
	b.settle(1, s)
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b", "c", "f"}, ids(rows))
	require.Equal(t, []string{"f"}, followers(rows), "d and e stand between")
	require.Equal(t, 2, b.sweep(lanes, most))
	require.Equal(t, []string{"b", "c", "d", "e", "f"}, ids(b.read(lanes, most)))
}

func parkUnparkShared[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 3, "a", "b", "c", "d")
	stuck(b, lanes, "l", 3, "e", "f", "g", "h")
	b.Age(t, "a", 2*time.Hour)
	s := settlement(lanes, delivered(b.due(lanes, "e")...)...)
	s.Unpark = 4
	b.settle(2, s)
	require.Equal(t, []string{"b", "c", "f", "g"}, ids(b.read(lanes, most)))
	require.Equal(t, 2, b.sweep(lanes, most))
}

func parkBehindParked[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 3, "a", "b", "c", "d", "e")
	rows := b.due(lanes, "a")
	require.Equal(t, []string{"e"}, followers(rows))
	s := settlement(lanes, results(delivered(b.row(rows, "a")), parkedBehind(b.row(rows, "e")))...)
	s.Unpark = 1
	b.settle(2, s)
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
	require.Equal(t, localtable.Status{Ready: 1, Parked: 3}, b.status())
	require.Equal(t, 3, b.sweep(lanes, most))
	require.Empty(t, followers(b.read(lanes, most)))
}

func parkUnparkSecondHead[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c", "d")...)
	rows := b.read(lanes, most)
	b.settle(4, settlement(lanes, results(
		one(retried(rows[0], time.Hour)), parkedBehind(rows[1]), one(died(rows[2])), parkedBehind(rows[3]),
	)...))
	b.settle(1, settlement(lanes, delivered(b.due(lanes, "a")...)...))
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
	require.Equal(t, localtable.Status{Ready: 1, Parked: 1, Dead: 1}, b.status())
}

func parkRefused[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 0, "a", "b")
	follower := b.read(lanes, most)[0]
	require.True(t, follower.Follower)
	b.settle(1, settlement(lanes, delivered(b.row(b.due(lanes, "a"), "a"))...))
	b.settle(0, settlement(lanes, parkedBehind(follower)...))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b"}, ids(rows))
	require.Equal(t, follower.Revision, rows[0].Revision)
	require.Empty(t, followers(rows))
}

func parkRefusedTogether[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 0, "a", "b")
	rows := b.due(lanes, "a")
	b.settle(1, settlement(lanes, results(delivered(rows[0]), parkedBehind(rows[1]))...))
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
}

func parkRace[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 1, "a", "b", "c")
	rows := b.due(lanes, "a")
	b.settle(1, settlement(lanes, results(delivered(rows[0]), parkedBehind(rows[1]))...))
	after := b.read(lanes, most)
	require.Equal(t, []string{"b", "c"}, ids(after))
	require.Empty(t, followers(after))
}

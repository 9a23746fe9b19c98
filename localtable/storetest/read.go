package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func readTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"at most limit rows, of each lane the first written ones", readLimit[Tx]},
		{"of these lanes and no other, and every row is in one lane", readLanes[Tx]},
		{"a row's lane is a hash of its destination and key; rows without a key are spread", readLaneOfKey[Tx]},
		{"of one destination and no other", readDestination[Tx]},
		{"changes nothing: what is read is read again", readTwice[Tx]},
		{"a delayed row is read when its time has come", readDelayed[Tx]},
		{"a delayed row neither follows nor holds back", readDelayedOutsideOrder[Tx]},
		{"a row in retry is read when its time has come", readRetry[Tx]},
		{"neither a backlog nor a crowd of retries keeps the other out", readMixed[Tx]},
		{"no rows", readNone[Tx]},
	}
}

func othersTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"rows of other topics, in any number of these", othersBehindMany[Tx]},
		{"none before which a ready row of its key stands", othersKeepOrder[Tx]},
		{"of this destination, these lanes and ready ones only", othersOnly[Tx]},
	}
}

func (b *bench[Tx]) others(lanes []localtable.Lane, limit int, topics ...string) []localtable.Row {
	b.t.Helper()
	rows, err := b.Store.Others(b.ctx, destination, lanes, topics, limit)
	require.NoError(b.t, err)
	return rows
}

// on moves messages to another topic.
func on(topic string, msgs []txmsg.Message) []txmsg.Message {
	for i := range msgs {
		msgs[i].Topic = topic
	}
	return msgs
}

func othersBehindMany[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 500)...)
	b.write(on("mail", plain("n", 500))...)
	b.write(on("bills", append(plain("b", 3), keyed("k", "first", "second")...))...)
	require.ElementsMatch(t, []string{"b0", "b1", "b2", "first"}, ids(b.others(lanes, most, "orders", "mail")))
	rows := b.others(lanes, 3, "orders", "mail")
	require.Len(t, rows, 3)
	require.Subset(t, b.read(lanes, 2*most), rows)
	require.Empty(t, b.others(lanes, most, "orders", "mail", "bills"))
}

func othersKeepOrder[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(append(keyed("k1", "order"), on("bills", keyed("k1", "behind"))...)...)
	b.write(append(on("bills", keyed("k2", "before")), keyed("k2", "after")...)...)
	require.Equal(t, []string{"before"}, ids(b.others(lanes, most, "orders")))

	b.settle(1, settlement(lanes, retried(b.row(b.read(lanes, most), "order"), time.Hour)))
	rows := b.others(lanes, most, "orders")
	require.ElementsMatch(t, []string{"before", "behind"}, ids(rows))
	require.Equal(t, []string{"behind"}, followers(rows))
	b.settle(1, settlement(lanes, parkedBehind(b.row(rows, "behind"))...))
	b.write(on("bills", keyed("k1", "last"))...)
	require.Equal(t, []string{"last"}, followers(b.others(lanes, most, "orders")))
}

func othersOnly[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.writeTo("elsewhere", on("bills", plain("theirs", 10))...)
	b.write(txmsg.Message{ID: "later", Topic: "bills", Body: []byte("x"), Delay: time.Hour})
	require.Empty(t, b.others(lanes, most, "orders"))
	b.write(on("bills", keyed("k", "ours"))...)
	require.Equal(t, []string{"ours"}, ids(b.others(lanes, most, "orders")))
	require.Empty(t, b.others(nil, most, "orders"), "no lanes, no rows")
}

func readLimit[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	for i := range 20 {
		b.write(plain(fmt.Sprintf("m%d-", i), 10)...)
	}
	all := b.read(lanes, most)
	require.Len(t, all, 200)
	for _, limit := range []int{1, 7, 50} {
		rows := b.read(lanes, limit)
		require.Len(t, rows, limit)
		for _, lane := range lanes {
			in := func(rows []localtable.Row) []string {
				return ids(slices.DeleteFunc(slices.Clone(rows), func(row localtable.Row) bool { return row.Lane != lane.Number }))
			}
			require.Equal(t, in(all)[:len(in(rows))], in(rows), "lane %d is not read from its first row on", lane.Number)
		}
	}
}

func readLanes[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 300)...)
	found := map[string]bool{}
	for _, lane := range lanes {
		for _, row := range b.read([]localtable.Lane{lane}, most) {
			require.Equal(t, lane.Number, row.Lane)
			require.False(t, found[row.Message.ID], "row is in two lanes")
			found[row.Message.ID] = true
		}
	}
	require.Len(t, found, 300)
}

func readLaneOfKey[Tx any](t *testing.T, b *bench[Tx]) {
	for i := range 100 {
		key := strconv.Itoa(i)
		b.write(keyed(key, key+"a", key+"b")...)
		b.write(keyed(key, key+"c")...)
	}
	b.write(plain("plain", 300)...)
	rows := b.read(b.all(), most)
	lanes, keyLanes := map[int]bool{}, map[string]int{}
	for _, row := range rows {
		if key := row.Message.Key; key == "" {
			lanes[row.Lane] = true
		} else if lane, ok := keyLanes[key]; ok {
			require.Equal(t, lane, row.Lane, "key %s is in two lanes", key)
		} else {
			keyLanes[key] = row.Lane
		}
	}
	require.Len(t, keyLanes, 100)
	require.GreaterOrEqual(t, len(lanes), min(b.Lanes, 8), "rows without a key are not spread")
}

func readDestination[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "ours")...)
	b.writeTo("elsewhere", keyed("k", "theirs")...)
	ours := b.read(lanes, most)
	require.Equal(t, []string{"ours"}, ids(ours))
	theirs, err := b.Store.Read(b.ctx, "elsewhere", lanes, most)
	require.NoError(t, err)
	require.Equal(t, []string{"theirs"}, ids(theirs))
	require.Equal(t, "elsewhere", theirs[0].Destination)

	b.settle(1, settlement(lanes, retried(ours[0], time.Hour)))
	theirs, err = b.Store.Read(b.ctx, "elsewhere", lanes, most)
	require.NoError(t, err)
	require.Empty(t, followers(theirs), "a failure holds back the key of its destination only")
}

func readTwice[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b")...)
	require.Equal(t, b.read(lanes, most), b.read(lanes, most))
}

func readDelayed[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(txmsg.Message{ID: "later", Topic: "t", Body: []byte("x"), Delay: time.Hour})
	require.Empty(t, b.read(lanes, most))
	b.Age(t, "later", 59*time.Minute)
	require.Empty(t, b.read(lanes, most))
	b.Age(t, "later", 2*time.Minute)
	rows := b.read(lanes, most)
	require.Equal(t, []string{"later"}, ids(rows))
	require.True(t, rows[0].Delayed)
	require.Zero(t, rows[0].Message.Delay)
	b.settle(1, settlement(lanes, delivered(rows...)...))
	require.Empty(t, b.read(lanes, most))
}

func readDelayedOutsideOrder[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	later := txmsg.Message{ID: "later", Topic: "t", Key: "k", Body: []byte("x"), Delay: time.Hour}
	b.write(later, keyed("k", "a")[0])
	b.Age(t, "later", 2*time.Hour)
	b.settle(1, settlement(lanes, retried(b.row(b.read(lanes, most), "later"), time.Hour)))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"a"}, ids(rows))
	require.Empty(t, followers(rows), "a delayed row that failed holds back its key")

	b.settle(1, settlement(lanes, retried(rows[0], time.Hour)))
	last := later
	last.ID = "last"
	b.write(last)
	b.Age(t, "last", 2*time.Hour)
	rows = b.read(lanes, most)
	require.Equal(t, []string{"last"}, ids(rows))
	require.Empty(t, followers(rows), "a delayed row follows")
}

func readRetry[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	b.settle(1, settlement(lanes, retried(b.read(lanes, most)[0], time.Hour)))
	require.Empty(t, b.read(lanes, most))
	b.Age(t, "a", 59*time.Minute)
	require.Empty(t, b.read(lanes, most))
	b.Age(t, "a", 2*time.Minute)
	rows := b.read(lanes, most)
	require.Equal(t, []string{"a"}, ids(rows))
	require.Equal(t, 1, rows[0].Attempts)
	require.True(t, rows[0].Head)
	require.False(t, rows[0].Follower)
}

func readMixed[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("again", 60)...)
	var failed []localtable.Result
	for _, row := range b.read(lanes, most) {
		failed = append(failed, retried(row, 0))
	}
	b.settle(60, settlement(lanes, failed...))
	b.write(plain("fresh", 60)...)
	rows := b.read(lanes, 20)
	require.Len(t, rows, 20)
	again := slices.DeleteFunc(slices.Clone(rows), func(row localtable.Row) bool { return row.Attempts == 0 })
	require.NotEmpty(t, again, "the backlog keeps retries out")
	require.Less(t, len(again), 20, "retries keep the backlog out")
	require.Len(t, b.read(lanes, most), 120)
}

func readNone[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	require.Empty(t, b.read(lanes, most))
	b.write(keyed("k", "a")...)
	require.Empty(t, b.read(nil, most), "no lanes, no rows")
}

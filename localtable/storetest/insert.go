package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func insertTests[Tx any](singleWriter bool) []test[Tx] {
	tests := []test[Tx]{
		{"keeps the order within a statement", insertKeepsOrder[Tx]},
		{"keeps the order over statements and transactions of a key", insertKeepsOrderOverTransactions[Tx]},
		{"keeps every field", insertKeepsFields[Tx]},
		{"C44 keeps NUL, whether as a byte or escaped in JSON", insertKeepsNUL[Tx]},
		{"C46 keeps the digits of numbers", insertKeepsNumbers[Tx]},
		{"keeps a large body", insertKeepsLargeBody[Tx]},
		{"writes many entries at once", insertMany[Tx]},
		{"no entries need no statements that fail", insertNone[Tx]},
		{"writes by Exec inside a transaction of the caller", insertByExec[Tx]},
		{"C14 nothing is visible before the commit, nor after a rollback", insertInvisible[Tx]},
	}
	if singleWriter {
		return tests
	}
	return append(tests, []test[Tx]{
		{"C18 a lower seq that commits later is read", insertOverlapping[Tx]},
		{"C18 of random overlapping transactions, what committed is read", insertOverlappingRandomly[Tx]},
	}...)
}

func insertKeepsOrder[Tx any](t *testing.T, b *bench[Tx]) {
	var want []string
	for i := range 200 {
		want = append(want, strconv.Itoa(i))
	}
	b.write(keyed("k", want...)...)
	rows := b.read(b.all(), most)
	require.Equal(t, want, ids(rows))
	for i := range rows[1:] {
		require.Less(t, rows[i].Seq, rows[i+1].Seq)
	}
}

func insertKeepsOrderOverTransactions[Tx any](t *testing.T, b *bench[Tx]) {
	var want []string
	for i := range 10 {
		first, second := fmt.Sprintf("%da", i), fmt.Sprintf("%db", i)
		tx := b.begin()
		require.NoError(t, b.Store.Exec(b.ctx, tx.Tx(), b.Store.Insert(entries(destination, keyed("k", first)))...))
		require.NoError(t, tx.Commit(b.ctx, b.Store.Insert(entries(destination, keyed("k", second)))...))
		want = append(want, first, second)
	}
	require.Equal(t, want, ids(b.read(b.all(), most)))
}

func insertKeepsFields[Tx any](t *testing.T, b *bench[Tx]) {
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	msgs := []txmsg.Message{
		{ID: "full", Topic: "orders.created-v1_x", Key: "kéy 键 🗝", Type: "order.created", Sequence: 1<<63 - 1, Body: bytes, Headers: map[string]string{
			"Case-Kept": `quotes ' " and \ and {braces} and, commas; 100% ?`, "case-kept": "other", "emoji": "🎉 ünïcode", "number": "1",
		}},
		{ID: "least", Topic: "t"},
		{ID: "empty-body", Topic: "t", Body: []byte{}},
		{ID: strings.Repeat("i", txmsg.MaxIDBytes), Topic: strings.Repeat("t", txmsg.MaxTopicBytes), Key: strings.Repeat("k", txmsg.MaxKeyBytes), Type: strings.Repeat("y", txmsg.MaxTypeBytes), Body: []byte("longest")},
	}
	before := time.Now()
	b.write(msgs...)
	rows := b.read(b.all(), most)
	require.Len(t, rows, len(msgs))
	for _, want := range msgs {
		row := b.row(rows, want.ID)
		require.True(t, want.Equal(row.Message), "wrote %+v, read %+v", want, row.Message)
		require.Equal(t, destination, row.Destination)
		require.Zero(t, row.Message.Delay)
		require.Zero(t, row.Attempts)
		require.False(t, row.Delayed)
		require.False(t, row.Head || row.Follower)
		require.WithinDuration(t, before, row.Created, time.Hour, "time of writing")
	}
}

func insertKeepsNUL[Tx any](t *testing.T, b *bench[Tx]) {
	raw, escaped, literal := []byte("a\x00b\xff"), []byte(`{"a":"x\u0000y"}`), []byte(`{"a":"x\\u0000y"}`)
	b.write(txmsg.Message{ID: "raw", Topic: "t", Body: raw}, txmsg.Message{ID: "escaped", Topic: "t", Body: escaped}, txmsg.Message{ID: "literal", Topic: "t", Body: literal})
	rows := b.read(b.all(), most)
	require.Equal(t, raw, b.row(rows, "raw").Message.Body)
	require.Equal(t, escaped, b.row(rows, "escaped").Message.Body)
	require.Equal(t, literal, b.row(rows, "literal").Message.Body)
}

func insertKeepsNumbers[Tx any](t *testing.T, b *bench[Tx]) {
	body := []byte(`{"id":9007199254740993,"x":1.10}`)
	b.write(txmsg.Message{ID: "m", Topic: "t", Body: body})
	require.Equal(t, body, b.row(b.read(b.all(), most), "m").Message.Body)
}

func insertKeepsLargeBody[Tx any](t *testing.T, b *bench[Tx]) {
	body := make([]byte, 3<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(body)
	b.write(txmsg.Message{ID: "m", Topic: "t", Body: body})
	require.Equal(t, body, b.row(b.read(b.all(), most), "m").Message.Body)
}

func insertMany[Tx any](t *testing.T, b *bench[Tx]) {
	const many = 12_000 // 12 columns of this many rows are more parameters than PostgreSQL's 65,535 and SQLite's 32,766
	b.write(plain("m", many)...)
	require.Len(t, b.read(b.all(), 2*many), many)
}

func insertNone[Tx any](t *testing.T, b *bench[Tx]) {
	b.write()
	require.Empty(t, b.read(b.all(), most))
}

func insertByExec[Tx any](t *testing.T, b *bench[Tx]) {
	tx := b.begin()
	require.NoError(t, b.Store.Exec(b.ctx, tx.Tx(), b.Store.Insert(entries(destination, keyed("k", "a", "b")))...))
	require.NoError(t, tx.Commit(b.ctx))
	require.Equal(t, []string{"a", "b"}, ids(b.read(b.all(), most)))
}

func insertInvisible[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	tx := b.begin()
	require.NoError(t, b.Store.Exec(b.ctx, tx.Tx(), b.Store.Insert(entries(destination, keyed("k", "a")))...))
	require.Empty(t, b.read(lanes, most), "before the commit")
	require.NoError(t, tx.Rollback(b.ctx))
	require.Empty(t, b.read(lanes, most), "after the rollback")
	b.write(keyed("k", "b")...)
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
}

func insertOverlapping[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	early := b.begin()
	require.NoError(t, b.Store.Exec(b.ctx, early.Tx(), b.Store.Insert(entries(destination, keyed("k1", "early")))...))
	b.write(keyed("k2", "late")...)
	late := b.read(lanes, most)
	require.Equal(t, []string{"late"}, ids(late))
	b.settle(1, settlement(lanes, delivered(late...)...))
	require.Empty(t, b.read(lanes, most))

	require.NoError(t, early.Commit(b.ctx))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"early"}, ids(rows))
	require.Less(t, rows[0].Seq, late[0].Seq, "the test's transactions did not overlap")
}

func insertOverlappingRandomly[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	var open []txmsg.Transaction[Tx]
	var sent []string
	drain := func() {
		rows := b.read(lanes, most)
		sent = append(sent, ids(rows)...)
		b.settle(len(rows), settlement(lanes, delivered(rows...)...))
	}
	var want []string
	committed := map[txmsg.Transaction[Tx]]string{}
	for i := range 200 {
		tx, id := b.begin(), strconv.Itoa(i)
		require.NoError(t, b.Store.Exec(b.ctx, tx.Tx(), b.Store.Insert(entries(destination, keyed(id, id)))...))
		open, committed[tx] = append(open, tx), id
		if len(open) < 3 && i != 199 {
			continue
		}
		rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		end, rest := open[0], open[1:]
		if i == 199 {
			end, rest = nil, open
			for _, tx := range rest {
				require.NoError(t, tx.Commit(b.ctx))
				want = append(want, committed[tx])
			}
		} else if rand.N(3) == 0 {
			require.NoError(t, end.Rollback(b.ctx))
		} else {
			require.NoError(t, end.Commit(b.ctx))
			want = append(want, committed[end])
		}
		open = slices.Clone(rest)
		drain()
	}
	require.ElementsMatch(t, want, sent)
}

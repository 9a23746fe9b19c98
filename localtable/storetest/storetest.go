package storetest

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Harness is one store in an empty schema or file of its own, and what the suite needs to move its time and to look
// behind it.
type Harness[Tx any] struct {
	// Store is what is tested.
	Store localtable.Store[Tx]
	// Operator is the same store as a person's verbs use it; nil if it has none, and then they are not tested.
	Operator localtable.OperatorStore
	// Lanes is how many lanes the store has.
	Lanes int
	// SingleWriter: a second transaction that writes waits until the first one has ended, so there are no tests of writers that
	// overlap.
	SingleWriter bool
	// Mute: the database has no notifications, and says so.
	Mute bool

	// Age moves the times of the row of this message, which is not delivered, into the past: when it is due, and when it
	// was written.
	Age func(t testing.TB, messageID string, by time.Duration)
	// AgeDelivered moves the time of delivery of every row that is kept into the past.
	AgeDelivered func(t testing.TB, by time.Duration)
	// Expire ends the leases of owner, and its being live, as time does.
	Expire func(t testing.TB, owner string)
	// Errors returns the texts of the history of a row that is not delivered, newest last.
	Errors func(t testing.TB, messageID string) []string
	// Cut breaks the connections of those who listen. A store that is Mute has none.
	Cut func(t testing.TB)
}

// Run runs the suite; open makes a harness for each test.
func Run[Tx any](t *testing.T, open func(t *testing.T) Harness[Tx]) {
	probe := open(t)
	for _, topic := range []struct {
		name  string
		tests []test[Tx]
	}{
		{"Insert", insertTests[Tx](probe.SingleWriter)},
		{"Lease", leaseTests[Tx]()},
		{"Release", releaseTests[Tx]()},
		{"Read", readTests[Tx]()},
		{"Others", othersTests[Tx]()},
		{"Settle", settleTests[Tx]()},
		{"Settle is fenced", fenceTests[Tx]()},
		{"order by key", parkTests[Tx]()},
		{"dead heads", deadTests[Tx]()},
		{"Sweep", sweepTests[Tx]()},
		{"retention", retentionTests[Tx]()},
		{"Status", statusTests[Tx]()},
		{"many at once", concurrentTests[Tx]()},
		{"FindHeld", findTests[Tx](probe.Operator)},
		{"Decide", decideTests[Tx](probe.Operator)},
		{"Decide unparks", decideUnparkTests[Tx](probe.Operator)},
		{"Decide is fenced", decideFenceTests[Tx](probe.Operator)},
		{"Audit", auditTests[Tx](probe.Operator)},
		{"Notify and Listen", notifyTests[Tx](probe)},
	} {
		t.Run(topic.name, func(t *testing.T) {
			for _, test := range topic.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(t, &bench[Tx]{Harness: open(t), t: t, ctx: t.Context()})
				})
			}
		})
	}
}

// test is one sentence of the contract.
type test[Tx any] struct {
	name string
	run  func(t *testing.T, b *bench[Tx])
}

const (
	destination = "default"
	owner       = "first"
	other       = "second"
	ttl         = time.Minute
	most        = 1000 // more rows than a test writes
)

// bench is a harness with the verbs of the tests. Each fails the test on an error.
type bench[Tx any] struct {
	Harness[Tx]
	t   *testing.T
	ctx context.Context
}

// keyed are messages of the key, each with its ID as its body.
func keyed(key string, ids ...string) []txmsg.Message {
	msgs := make([]txmsg.Message, len(ids))
	for i, id := range ids {
		msgs[i] = txmsg.Message{ID: id, Topic: "orders", Key: key, Body: []byte(id)}
	}
	return msgs
}

// plain are n messages without a key.
func plain(prefix string, n int) []txmsg.Message {
	var ids []string
	for i := range n {
		ids = append(ids, prefix+strconv.Itoa(i))
	}
	return keyed("", ids...)
}

// write writes msgs in a transaction of its own.
func (b *bench[Tx]) write(msgs ...txmsg.Message) {
	b.t.Helper()
	b.writeTo(destination, msgs...)
}

func (b *bench[Tx]) writeTo(destination string, msgs ...txmsg.Message) {
	b.t.Helper()
	tx := b.begin()
	require.NoError(b.t, tx.Commit(b.ctx, b.Store.Insert(entries(destination, msgs))...))
}

func entries(destination string, msgs []txmsg.Message) []localtable.Entry {
	list := make([]localtable.Entry, len(msgs))
	for i, m := range msgs {
		list[i] = localtable.Entry{Destination: destination, Message: m}
	}
	return list
}

func (b *bench[Tx]) begin() txmsg.Transaction[Tx] {
	b.t.Helper()
	tx, err := b.Store.Begin(b.ctx, func() func() { return func() {} })
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) })
	return tx
}

// lease leases for who and returns what it holds.
func (b *bench[Tx]) lease(who string) localtable.Lease {
	b.t.Helper()
	lease, err := b.Store.Lease(b.ctx, who, ttl)
	require.NoError(b.t, err)
	return lease
}

// all leases every lane for the first owner.
func (b *bench[Tx]) all() []localtable.Lane {
	b.t.Helper()
	lanes := b.lease(owner).Lanes
	require.Len(b.t, lanes, b.Lanes)
	return lanes
}

func (b *bench[Tx]) read(lanes []localtable.Lane, limit int) []localtable.Row {
	b.t.Helper()
	rows, err := b.Store.Read(b.ctx, destination, lanes, limit)
	require.NoError(b.t, err)
	return rows
}

// settlement is one of the first owner that keeps what is delivered, holds keys behind dead rows and unparks all.
func settlement(lanes []localtable.Lane, results ...localtable.Result) localtable.Settlement {
	return localtable.Settlement{
		Owner: owner, Lanes: lanes, Results: results, Archive: true, DeadHolds: true, Unpark: most, Errors: 5,
	}
}

// settle writes results and requires that so many rows changed.
func (b *bench[Tx]) settle(changed int, s localtable.Settlement) {
	b.t.Helper()
	got, err := b.Store.Settle(b.ctx, s)
	require.NoError(b.t, err)
	require.Equal(b.t, changed, got, "rows changed")
}

func (b *bench[Tx]) sweep(lanes []localtable.Lane, limit int) int {
	b.t.Helper()
	swept, err := b.Store.Sweep(b.ctx, owner, lanes, limit)
	require.NoError(b.t, err)
	return swept
}

func (b *bench[Tx]) status() localtable.Status {
	b.t.Helper()
	status, err := b.Store.Status(b.ctx)
	require.NoError(b.t, err)
	status.OldestUnsent, status.OldestSnapshot, status.Destinations = 0, 0, nil
	return status
}

// kept counts the delivered rows that are kept, and removes them.
func (b *bench[Tx]) kept() int {
	b.t.Helper()
	b.AgeDelivered(b.t, 48*time.Hour)
	count, err := b.Store.PruneMessages(b.ctx, time.Hour, most)
	require.NoError(b.t, err)
	return count
}

// row returns the one of rows with this message ID.
func (b *bench[Tx]) row(rows []localtable.Row, id string) localtable.Row {
	b.t.Helper()
	i := slices.IndexFunc(rows, func(row localtable.Row) bool { return row.Message.ID == id })
	require.GreaterOrEqual(b.t, i, 0, "row of message %s is not among %v", id, ids(rows))
	return rows[i]
}

func ids(rows []localtable.Row) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = row.Message.ID
	}
	return list
}

// followers are the IDs of the rows that are followers.
func followers(rows []localtable.Row) []string {
	return ids(slices.DeleteFunc(slices.Clone(rows), func(row localtable.Row) bool { return !row.Follower }))
}

func delivered(rows ...localtable.Row) []localtable.Result {
	results := make([]localtable.Result, len(rows))
	for i, row := range rows {
		results[i] = localtable.Result{Row: row, Fate: localtable.Delivered}
	}
	return results
}

func retried(row localtable.Row, after time.Duration) localtable.Result {
	return localtable.Result{Row: row, Fate: localtable.Retry, After: after, Error: "refused once", Class: "refused"}
}

func died(row localtable.Row) localtable.Result {
	return localtable.Result{Row: row, Fate: localtable.Dead, Error: "refused for good", Class: "refused"}
}

func parkedBehind(rows ...localtable.Row) []localtable.Result {
	results := make([]localtable.Result, len(rows))
	for i, row := range rows {
		results[i] = localtable.Result{Row: row, Fate: localtable.Parked}
	}
	return results
}

// results joins lists.
func results(lists ...[]localtable.Result) []localtable.Result { return slices.Concat(lists...) }

func one(result localtable.Result) []localtable.Result { return []localtable.Result{result} }

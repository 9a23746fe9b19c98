package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func findTests[Tx any](operator localtable.OperatorStore) []test[Tx] {
	if operator == nil {
		return nil
	}
	return []test[Tx]{
		{"finds a row in each state with all that it is, and none that is ready or delivered", findStates[Tx]},
		{"tells the errors of a row with class and time, newest last", findErrors[Tx]},
		{"leaves out body, headers and errors unless asked for the whole", findBare[Tx]},
		{"each field of the filter selects", findFilter[Tx]},
		{"all fields of the filter must match", findFilters[Tx]},
		{"pages by seq", findPages[Tx]},
	}
}

// find returns the whole rows that match, all of them.
func (b *bench[Tx]) find(filter localtable.Filter) []localtable.Held {
	b.t.Helper()
	rows, err := b.Operator.FindHeld(b.ctx, filter, 0, most, true)
	require.NoError(b.t, err)
	return rows
}

// held returns the only row of this message.
func (b *bench[Tx]) held(id string) localtable.Held {
	b.t.Helper()
	rows := b.find(localtable.Filter{IDs: []string{id}})
	require.Len(b.t, rows, 1, "held rows of message %s", id)
	return rows[0]
}

func heldIDs(rows []localtable.Held) []string {
	list := []string{}
	for _, row := range rows {
		list = append(list, row.Message.ID)
	}
	return list
}

// whole is a message of which every field is used.
func whole(id, key string) txmsg.Message {
	return txmsg.Message{
		ID: id, Topic: "payments", Key: key, Type: "payment.made", Sequence: 7,
		Body:    []byte("{\"id\":9007199254740993,\"x\":1.10,\"nul\":\"\\u0000\"}\x00\xff"),
		Headers: map[string]string{"A": "1", "b": "ü", "traceparent": "00-1"},
	}
}

// kill writes msgs and lets each die and hold its key.
func (b *bench[Tx]) kill(lanes []localtable.Lane, msgs ...txmsg.Message) {
	b.t.Helper()
	b.write(msgs...)
	for _, m := range msgs {
		b.settle(1, settlement(lanes, died(b.row(b.read(lanes, most), m.ID))))
	}
}

func findStates[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	delayed := whole("delayed", "k")
	delayed.Delay = time.Hour
	b.write(whole("sent", "k0"), whole("dead", "k1"), whole("retry", "k2"), whole("parked", "k2"), delayed)
	rows := b.read(lanes, most)
	b.settle(4, settlement(lanes, results(
		delivered(b.row(rows, "sent")), one(died(b.row(rows, "dead"))),
		one(retried(b.row(rows, "retry"), time.Hour)), parkedBehind(b.row(rows, "parked")),
	)...))
	b.write(whole("ready", "k3"))

	found := b.find(localtable.Filter{})
	require.ElementsMatch(t, []string{"dead", "retry", "parked", "delayed"}, heldIDs(found))
	for _, row := range found {
		want := whole(row.Message.ID, row.Message.Key)
		require.True(t, want.Equal(row.Message), "%+v", row.Message)
		require.Zero(t, row.Message.Delay)
		require.Equal(t, destination, row.Destination)
		require.WithinDuration(t, time.Now(), row.Created, time.Minute)
	}
	due := func(state localtable.State, attempts int, holds bool, wait time.Duration) {
		t.Helper()
		row := b.held(map[localtable.State]string{
			localtable.StateDead: "dead", localtable.StateRetry: "retry", localtable.StateParked: "parked", localtable.StateWaiting: "delayed",
		}[state])
		require.Equal(t, state, row.State)
		require.Equal(t, attempts, row.Attempts)
		require.Equal(t, holds, row.Holds, "%s holds", state)
		if wait == 0 {
			require.True(t, row.Due.IsZero(), "%s is due at %v", state, row.Due)
			return
		}
		require.WithinDuration(t, time.Now().Add(wait), row.Due, time.Minute)
	}
	due(localtable.StateDead, 1, true, 0)
	due(localtable.StateRetry, 1, true, time.Hour)
	due(localtable.StateParked, 0, false, 0)
	due(localtable.StateWaiting, 0, false, time.Hour)
}

func findErrors[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	b.settle(1, settlement(lanes, retried(b.read(lanes, most)[0], 0)))
	last := died(b.read(lanes, most)[0])
	last.Class = "too_large"
	b.settle(1, settlement(lanes, last))
	failures := b.held("a").Errors
	require.Len(t, failures, 2)
	for i, want := range []localtable.Failure{{Class: "refused", Error: "refused once"}, {Class: "too_large", Error: "refused for good"}} {
		require.WithinDuration(t, time.Now(), failures[i].At, time.Minute)
		want.At = failures[i].At
		require.Equal(t, want, failures[i])
	}
	require.False(t, failures[1].At.Before(failures[0].At))
}

func findBare[Tx any](t *testing.T, b *bench[Tx]) {
	b.kill(b.all(), whole("a", "k"))
	rows, err := b.Operator.FindHeld(b.ctx, localtable.Filter{}, 0, most, false)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, b.held("a").Ref(), rows[0].Ref())
	require.Equal(t, whole("a", "k").Type, rows[0].Message.Type)
	require.Empty(t, rows[0].Message.Body)
	require.Empty(t, rows[0].Message.Headers)
	require.Empty(t, rows[0].Errors)
}

func findFilter[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	wanted := txmsg.Message{ID: "wanted", Topic: "refunds", Key: "k1"}
	b.writeTo("elsewhere", wanted)
	b.write(keyed("k2", "waits", "parked")...)
	rows, err := b.Store.Read(b.ctx, "elsewhere", lanes, most)
	require.NoError(t, err)
	large := died(rows[0])
	large.Class = "too_large"
	b.settle(1, settlement(lanes, large))
	b.Age(t, "wanted", 2*time.Hour)
	rows = b.read(lanes, most)
	b.settle(2, settlement(lanes, results(one(retried(b.row(rows, "waits"), time.Hour)), parkedBehind(b.row(rows, "parked")))...))

	hourAgo := time.Now().Add(-time.Hour)
	for name, filter := range map[string]localtable.Filter{
		"states": {States: []localtable.State{localtable.StateDead}}, "destination": {Destination: "elsewhere"},
		"topic": {Topic: "refunds"}, "key": {Key: "k1"}, "ids": {IDs: []string{"wanted", "unknown"}},
		"class": {Class: "too_large"}, "until": {Until: hourAgo},
	} {
		require.Equal(t, []string{"wanted"}, heldIDs(b.find(filter)), name)
	}
	require.Equal(t, []string{"waits", "parked"}, heldIDs(b.find(localtable.Filter{Since: hourAgo})))
	require.Equal(t, []string{"waits", "parked"}, heldIDs(b.find(localtable.Filter{
		States: []localtable.State{localtable.StateParked, localtable.StateRetry, localtable.StateWaiting},
	})))
	require.Empty(t, b.find(localtable.Filter{Class: "no_route"}))
	require.Empty(t, b.find(localtable.Filter{Key: `'; DROP TABLE txmsg_lane; --%d`}))
}

func findFilters[Tx any](t *testing.T, b *bench[Tx]) {
	b.kill(b.all(), keyed("k1", "a", "b")[0], keyed("k2", "c")[0], whole("d", "k3"))
	dead := []localtable.State{localtable.StateDead}
	require.Equal(t, []string{"d"}, heldIDs(b.find(localtable.Filter{
		States: dead, Destination: destination, Topic: "payments", Key: "k3", IDs: []string{"a", "d"}, Class: "refused",
		Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour),
	})))
	require.Empty(t, b.find(localtable.Filter{States: dead, Topic: "payments", Key: "k2"}))
}

func findPages[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 7)...)
	var all []localtable.Result
	for _, row := range b.read(lanes, most) {
		all = append(all, died(row))
	}
	b.settle(7, settlement(lanes, all...))
	var list []string
	after := int64(0)
	for _, size := range []int{3, 3, 1, 0} {
		rows, err := b.Operator.FindHeld(b.ctx, localtable.Filter{}, after, 3, true)
		require.NoError(t, err)
		require.Len(t, rows, size)
		for _, row := range rows {
			require.Greater(t, row.Seq, after)
			after = row.Seq
		}
		list = append(list, heldIDs(rows)...)
	}
	require.Equal(t, []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6"}, list)
}

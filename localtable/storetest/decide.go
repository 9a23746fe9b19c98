package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func decideTests[Tx any](operator localtable.OperatorStore) []test[Tx] {
	if operator == nil {
		return nil
	}
	return []test[Tx]{
		{"retry makes a dead row due, with all attempts before it, its history and its hold on the key", decideRetryDead[Tx]},
		{"retry makes a row in retry due", decideRetryRetry[Tx]},
		{"retry of a row that was written with a delay, or has no key, holds nothing", decideRetryFree[Tx]},
		{"retry of a row that was released, or died without holding, holds its key again", decideRetryReleased[Tx]},
		{"retry of a row behind another head goes after it", decideRetryBehind[Tx]},
		{"skip takes a dead row away", decideSkip[Tx]},
		{"release leaves a row dead that holds nothing, and it may be skipped", decideRelease[Tx]},
		{"an unknown verb is an error and changes nothing", decideUnknown[Tx]},
		{"C44 C46 the bytes are the same from writing through death and retry", decideBytes[Tx]},
		{"C34 pruning touches neither what is dead nor the audit", decidePrune[Tx]},
	}
}

var because = localtable.Reason{Who: "ann", Why: "the broker is repaired"}

// decide decides about rows, and requires that so many changed.
func (b *bench[Tx]) decide(changed int, verb localtable.Verb, rows ...localtable.Held) {
	b.t.Helper()
	b.decideUnparking(changed, verb, most, rows...)
}

func (b *bench[Tx]) decideUnparking(changed int, verb localtable.Verb, unpark int, rows ...localtable.Held) {
	b.t.Helper()
	refs := make([]localtable.Ref, len(rows))
	for i, row := range rows {
		refs[i] = row.Ref()
	}
	got, err := b.Operator.Decide(b.ctx, localtable.Decision{Verb: verb, Reason: because, Refs: refs, Unpark: unpark})
	require.NoError(b.t, err)
	require.Len(b.t, got, changed, "rows changed")
	require.Subset(b.t, refs, got)
}

func decideRetryDead[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, keyed("k", "a")...)
	b.write(keyed("k", "b")...)
	before := b.held("a")
	b.decide(1, localtable.VerbRetry, before)
	after := b.held("a")
	require.Greater(t, after.Revision, before.Revision)
	require.WithinDuration(t, time.Now(), after.Due, time.Minute)
	after.Revision, after.Due = before.Revision, before.Due
	before.State, before.Attempts = localtable.StateRetry, 0
	require.Equal(t, before, after)
	require.True(t, after.Holds)

	rows := b.read(lanes, most)
	require.Equal(t, []string{"a", "b"}, ids(rows))
	require.Empty(t, followers(rows))
	require.Zero(t, rows[0].Attempts)
	b.settle(2, settlement(lanes, results(one(retried(rows[0], time.Hour)), parkedBehind(rows[1]))...))
	require.Equal(t, []string{"refused for good", "refused once"}, b.Errors(t, "a"))
	require.Equal(t, 1, b.held("a").Attempts)
}

func decideRetryRetry[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 1, "a", "b")
	require.Empty(t, b.read(lanes, most))
	b.decide(1, localtable.VerbRetry, b.held("a"))
	rows := b.read(lanes, most)
	require.Equal(t, []string{"a"}, ids(rows), "b waits for a")
	require.Zero(t, rows[0].Attempts)
	b.settle(1, settlement(lanes, delivered(rows...)...))
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
}

func decideRetryFree[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	delayed := keyed("k", "delayed")[0]
	delayed.Delay = time.Hour
	b.write(delayed, txmsg.Message{ID: "keyless", Topic: "orders"})
	b.Age(t, "delayed", 2*time.Hour)
	for _, row := range b.read(lanes, most) {
		b.settle(1, settlement(lanes, died(row)))
	}
	b.write(keyed("k", "later")...)
	b.decide(0, localtable.VerbRelease, b.held("delayed"), b.held("keyless"))
	b.decide(2, localtable.VerbRetry, b.held("delayed"), b.held("keyless"))
	require.False(t, b.held("delayed").Holds)
	require.False(t, b.held("keyless").Holds)
	rows := b.read(lanes, most)
	require.ElementsMatch(t, []string{"delayed", "keyless", "later"}, ids(rows))
	require.Empty(t, followers(rows))
	b.settle(0, settlement(lanes, parkedBehind(b.row(rows, "delayed"))...))
	b.settle(3, settlement(lanes, delivered(rows...)...))
}

func decideRetryReleased[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, keyed("k1", "released")...)
	b.decide(1, localtable.VerbRelease, b.held("released"))
	b.write(keyed("k2", "free")...)
	s := settlement(lanes, died(b.read(lanes, most)[0]))
	s.DeadHolds = false
	b.settle(1, s)
	b.decide(2, localtable.VerbRetry, b.held("released"), b.held("free"))
	require.True(t, b.held("released").Holds)
	require.True(t, b.held("free").Holds)
	b.write(keyed("k1", "b")...)
	b.write(keyed("k2", "c")...)
	rows := b.read(lanes, most)
	require.Len(t, rows, 4)
	b.settle(2, settlement(lanes, retried(b.row(rows, "released"), time.Hour), retried(b.row(rows, "free"), time.Hour)))
	require.ElementsMatch(t, []string{"b", "c"}, followers(b.read(lanes, most)))
}

func decideRetryBehind[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a", "b", "c")...)
	rows := b.read(lanes, most)
	b.settle(3, settlement(lanes, results(
		one(retried(rows[0], time.Hour)), one(died(rows[1])), parkedBehind(rows[2]))...))
	b.decide(1, localtable.VerbRetry, b.held("b"))
	rows = b.read(lanes, most)
	require.Equal(t, []string{"b"}, followers(rows), "a stands before it")
	b.settle(1, settlement(lanes, parkedBehind(rows...)...))
	b.settle(1, settlement(lanes, delivered(b.due(lanes, "a")...)...))
	rows = b.read(lanes, most)
	require.Equal(t, []string{"b", "c"}, ids(rows))
	require.Empty(t, followers(rows))
}

func decideSkip[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, keyed("k", "a")...)
	b.kill(lanes, plain("keyless", 1)...)
	b.decide(2, localtable.VerbSkip, b.held("a"), b.held("keyless0"))
	require.Empty(t, b.find(localtable.Filter{}))
	require.Empty(t, b.read(lanes, most))
	require.Zero(t, b.sweep(lanes, most))
	require.Equal(t, localtable.Status{}, b.status())
	require.Zero(t, b.kept(), "it is not delivered")
}

func decideRelease[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, keyed("k", "a")...)
	before := b.held("a")
	b.decide(1, localtable.VerbRelease, before)
	after := b.held("a")
	require.Greater(t, after.Revision, before.Revision)
	before.Revision, before.Holds = after.Revision, false
	require.Equal(t, before, after)
	b.write(keyed("k", "b")...)
	rows := b.read(lanes, most)
	require.Equal(t, []string{"b"}, ids(rows))
	require.Empty(t, followers(rows))
	b.decide(1, localtable.VerbSkip, after)
	require.Equal(t, localtable.Status{Ready: 1}, b.status())
}

func decideUnknown[Tx any](t *testing.T, b *bench[Tx]) {
	b.kill(b.all(), keyed("k", "a")...)
	before := b.held("a")
	_, err := b.Operator.Decide(b.ctx, localtable.Decision{Verb: "forget", Reason: because, Refs: []localtable.Ref{before.Ref()}, Unpark: most})
	require.ErrorContains(t, err, `Decision.Verb must be retry, skip or release, got "forget"`)
	require.Equal(t, before, b.held("a"))
	require.Empty(t, b.audit(localtable.AuditFilter{}))
}

func decideBytes[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	msgs := []txmsg.Message{whole("full", "k")}
	for id, body := range map[string]string{
		"nul": `{"a":"x\u0000y"}`, "text": `{"a":"\\u0000"}`, "number": `{"id":9007199254740993,"x":1.10}`, "empty": "", "odd": "\x00\xff\n",
	} {
		msgs = append(msgs, txmsg.Message{ID: id, Topic: "orders", Key: id, Body: []byte(body)})
	}
	b.kill(lanes, msgs...)
	b.decide(len(msgs), localtable.VerbRetry, b.find(localtable.Filter{})...)
	rows := b.read(lanes, most)
	require.Len(t, rows, len(msgs))
	for _, want := range msgs {
		got := b.row(rows, want.ID).Message
		require.True(t, want.Equal(got), "got %+v, want %+v", got, want)
		require.NotNil(t, got.Body)
	}
}

func decidePrune[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, keyed("k1", "a")...)
	b.kill(lanes, keyed("k2", "b")...)
	b.decide(1, localtable.VerbSkip, b.held("b"))
	b.Age(t, "a", 90*24*time.Hour)
	_, err := b.Store.PruneMessages(b.ctx, 0, most)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, heldIDs(b.find(localtable.Filter{})))
	require.Len(t, b.audit(localtable.AuditFilter{}), 1)
}

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

func auditTests[Tx any](operator localtable.OperatorStore) []test[Tx] {
	if operator == nil {
		return nil
	}
	return []test[Tx]{
		{"an entry tells who, why, what, when, and what the row was", auditEntry[Tx]},
		{"of a skipped message it keeps all, of others no body", auditSkipped[Tx]},
		{"C58 a message that is retried twice has two entries", auditTwice[Tx]},
		{"each field of the filter selects", auditFilter[Tx]},
		{"pages by number", auditPages[Tx]},
	}
}

func (b *bench[Tx]) audit(filter localtable.AuditFilter) []localtable.AuditEntry {
	b.t.Helper()
	entries, err := b.Operator.Audit(b.ctx, filter, 0, most)
	require.NoError(b.t, err)
	return entries
}

// judge decides with a reason of its own.
func (b *bench[Tx]) judge(who, why string, verb localtable.Verb, row localtable.Held) {
	b.t.Helper()
	changed, err := b.Operator.Decide(b.ctx, localtable.Decision{
		Verb: verb, Reason: localtable.Reason{Who: who, Why: why}, Refs: []localtable.Ref{row.Ref()}, Unpark: most,
	})
	require.NoError(b.t, err)
	require.Equal(b.t, []localtable.Ref{row.Ref()}, changed)
}

func auditEntry[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(whole("a", "k"))
	b.settle(1, settlement(lanes, retried(b.read(lanes, most)[0], time.Hour)))
	row := b.held("a")
	b.judge("ann 'x' ü", `why? "because"`, localtable.VerbRetry, row)
	b.settle(1, settlement(lanes, died(b.read(lanes, most)[0])))
	dead := b.held("a")
	b.judge("bob", "later", localtable.VerbRelease, dead)

	entries := b.audit(localtable.AuditFilter{})
	require.Len(t, entries, 2)
	for i, want := range []localtable.AuditEntry{
		{Who: "ann 'x' ü", Why: `why? "because"`, Verb: localtable.VerbRetry, Revision: row.Revision, State: localtable.StateRetry, Attempts: row.Attempts},
		{Who: "bob", Why: "later", Verb: localtable.VerbRelease, Revision: dead.Revision, State: localtable.StateDead, Attempts: dead.Attempts},
	} {
		got := entries[i]
		require.WithinDuration(t, time.Now(), got.At, time.Minute)
		want.Entry, want.At, want.Seq, want.Destination, want.Created = got.Entry, got.At, row.Seq, destination, row.Created
		want.Message = whole("a", "k")
		want.Message.Body, want.Message.Headers = nil, nil
		require.True(t, want.Message.Equal(got.Message), "%+v", got.Message)
		got.Message = want.Message
		require.Equal(t, want, got)
	}
	require.Greater(t, entries[1].Entry, entries[0].Entry)
	require.False(t, entries[1].At.Before(entries[0].At))
}

func auditSkipped[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, whole("a", "k"), keyed("", "empty")[0], whole("b", "k2"))
	row := b.held("a")
	b.judge("ann", "sent by hand", localtable.VerbSkip, row)
	entry := b.audit(localtable.AuditFilter{ID: "a"})[0]
	require.True(t, whole("a", "k").Equal(entry.Message), "%+v", entry.Message)
	require.Equal(t, row.Errors, entry.Errors)
	require.Equal(t, row.Created, entry.Created)
	b.decide(2, localtable.VerbRetry, b.held("b"), b.held("empty"))
	b.settle(2, settlement(lanes, died(b.row(b.read(lanes, most), "b")), died(b.row(b.read(lanes, most), "empty"))))
	b.decide(1, localtable.VerbRelease, b.held("b"))
	entries := b.audit(localtable.AuditFilter{ID: "b"})
	require.Len(t, entries, 2)
	for _, entry := range entries {
		require.Empty(t, entry.Message.Body)
		require.Empty(t, entry.Message.Headers)
		require.Empty(t, entry.Errors)
	}
}

func auditTwice[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, whole("a", "k"))
	b.judge("ann", "first", localtable.VerbRetry, b.held("a"))
	row := b.read(lanes, most)[0]
	require.True(t, whole("a", "k").Equal(row.Message))
	b.settle(1, settlement(lanes, died(row)))
	b.judge("bob", "second", localtable.VerbRetry, b.held("a"))
	row = b.read(lanes, most)[0]
	require.True(t, whole("a", "k").Equal(row.Message))
	b.settle(1, settlement(lanes, delivered(row)...))
	entries := b.audit(localtable.AuditFilter{ID: "a"})
	require.Len(t, entries, 2)
	require.Equal(t, []string{"ann", "bob"}, []string{entries[0].Who, entries[1].Who})
}

func auditFilter[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, keyed("k1", "a")[0], keyed("k2", "b")[0])
	wanted := whole("wanted", "k3")
	b.writeTo("elsewhere", wanted)
	rows, err := b.Store.Read(b.ctx, "elsewhere", lanes, most)
	require.NoError(t, err)
	b.settle(1, settlement(lanes, died(rows[0])))
	b.judge("ann", "x", localtable.VerbRetry, b.held("a"))
	b.judge("ann", "x", localtable.VerbRelease, b.held("b"))
	b.judge("bob", "x", localtable.VerbSkip, b.held("wanted"))
	for name, filter := range map[string]localtable.AuditFilter{
		"who": {Who: "bob"}, "verb": {Verb: localtable.VerbSkip}, "id": {ID: "wanted"}, "destination": {Destination: "elsewhere"},
		"topic": {Topic: "payments"}, "key": {Key: "k3"},
		"all": {Who: "bob", Verb: localtable.VerbSkip, ID: "wanted", Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)},
	} {
		entries := b.audit(filter)
		require.Len(t, entries, 1, name)
		require.Equal(t, "wanted", entries[0].Message.ID, name)
	}
	require.Len(t, b.audit(localtable.AuditFilter{Who: "ann"}), 2)
	require.Empty(t, b.audit(localtable.AuditFilter{Who: "ann", ID: "wanted"}))
	require.Empty(t, b.audit(localtable.AuditFilter{Since: time.Now().Add(time.Hour)}))
	require.Empty(t, b.audit(localtable.AuditFilter{Until: time.Now().Add(-time.Hour)}))
}

func auditPages[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.kill(lanes, plain("m", 5)...)
	b.decide(5, localtable.VerbSkip, b.find(localtable.Filter{})...)
	var list []string
	after := int64(0)
	for _, size := range []int{2, 2, 1, 0} {
		entries, err := b.Operator.Audit(b.ctx, localtable.AuditFilter{}, after, 2)
		require.NoError(t, err)
		require.Len(t, entries, size)
		for _, entry := range entries {
			require.Greater(t, entry.Entry, after)
			after = entry.Entry
			list = append(list, entry.Message.ID)
		}
	}
	require.Equal(t, []string{"m0", "m1", "m2", "m3", "m4"}, list)
}

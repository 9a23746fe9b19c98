package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/txmsg/txmsg-go/localtable"
)

func decideFenceTests[Tx any](operator localtable.OperatorStore) []test[Tx] {
	if operator == nil {
		return nil
	}
	return []test[Tx]{
		{"a row with another revision is left, and the others are changed", leftRevision[Tx]},
		{"a row that is not dead is left", leftState[Tx]},
		{"a row that holds nothing is not released", leftHolds[Tx]},
		{"each verb counts once, and a later one needs the new revision", decideTwice[Tx]},
		{"a row that is named twice changes once", decideDouble[Tx]},
		{"it asks for no lease", decideUnleased[Tx]},
		{"C22 a verb leaves a row that a settlement has changed since it was seen", leftSettled[Tx]},
		{"C22 a settlement leaves a row that a verb has changed since it was read", leftDecided[Tx]},
		{"C22 of a verb and a settlement at once, one changes the row", onlyOne[Tx]},
		{"of verbs at once, one changes the row", onlyOneVerb[Tx]},
	}
}

func leftRevision[Tx any](t *testing.T, b *bench[Tx]) {
	b.kill(b.all(), keyed("k1", "a")[0], keyed("k2", "b")[0])
	for _, verb := range []localtable.Verb{localtable.VerbRetry, localtable.VerbRelease, localtable.VerbSkip} {
		stale, older := b.held("a"), b.held("a")
		stale.Revision++
		older.Revision--
		b.decide(1, verb, stale, b.held("b"), older)
		require.Equal(t, localtable.StateDead, b.held("a").State)
		require.True(t, b.held("a").Holds)
		if verb == localtable.VerbRetry {
			lanes := b.all()
			b.settle(1, settlement(lanes, died(b.row(b.read(lanes, most), "b"))))
		}
	}
}

func leftState[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	delayed := keyed("k1", "waiting")[0]
	delayed.Delay = time.Hour
	b.write(delayed)
	stuck(b, lanes, "k2", 1, "retry", "parked")
	b.write(keyed("k3", "ready")...)
	ready := b.read(lanes, most)[0]
	before := b.find(localtable.Filter{})
	b.decide(0, localtable.VerbSkip, before...)
	b.decide(0, localtable.VerbRelease, before...)
	b.decide(0, localtable.VerbRetry, b.held("waiting"), b.held("parked"))
	require.Equal(t, before, b.find(localtable.Filter{}))
	for _, verb := range []localtable.Verb{localtable.VerbRetry, localtable.VerbSkip, localtable.VerbRelease} {
		b.decide(0, verb, localtable.Held{Seq: ready.Seq, Revision: ready.Revision}, localtable.Held{Seq: ready.Seq}, localtable.Held{Seq: 1 << 40})
	}
	require.Equal(t, []localtable.Row{ready}, b.read(lanes, most))
	require.Empty(t, b.audit(localtable.AuditFilter{}))
}

func leftHolds[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(keyed("k", "a")...)
	s := settlement(lanes, died(b.read(lanes, most)[0]))
	s.DeadHolds = false
	b.settle(1, s)
	before := b.held("a")
	require.False(t, before.Holds)
	b.decide(0, localtable.VerbRelease, before)
	require.Equal(t, before, b.held("a"))
	b.decide(1, localtable.VerbSkip, before)
}

func decideTwice[Tx any](t *testing.T, b *bench[Tx]) {
	b.kill(b.all(), keyed("k1", "a")[0], keyed("k2", "b")[0], keyed("k3", "c")[0])
	a, released, skipped := b.held("a"), b.held("b"), b.held("c")
	for changed := 1; changed >= 0; changed-- {
		b.decide(changed, localtable.VerbRetry, a)
		b.decide(changed, localtable.VerbRelease, released)
		b.decide(changed, localtable.VerbSkip, skipped)
	}
	b.decide(0, localtable.VerbSkip, released)
	b.decide(1, localtable.VerbSkip, b.held("b"))
	require.Len(t, b.audit(localtable.AuditFilter{}), 4)
}

func decideDouble[Tx any](t *testing.T, b *bench[Tx]) {
	b.kill(b.all(), keyed("k1", "a")[0], keyed("k2", "b")[0], keyed("k3", "c")[0])
	for verb, id := range map[localtable.Verb]string{localtable.VerbRetry: "a", localtable.VerbRelease: "b", localtable.VerbSkip: "c"} {
		row := b.held(id)
		b.decide(1, verb, row, row)
	}
	require.Len(t, b.audit(localtable.AuditFilter{}), 3)
}

func decideUnleased[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	deadHead(b, lanes, "k1", "a", "b")
	deadHead(b, lanes, "k2", "c", "d")
	require.NoError(t, b.Store.Release(b.ctx, owner))
	b.decide(1, localtable.VerbSkip, b.held("a"))
	next := b.lease(other).Lanes
	b.decide(1, localtable.VerbSkip, b.held("c"))
	require.Equal(t, next, b.lease(other).Lanes, "the lease is as it was")
	require.ElementsMatch(t, []string{"b", "d"}, ids(b.read(next, most)))
}

func leftSettled[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k1", 0, "sent")
	stuck(b, lanes, "k2", 0, "failed")
	stuck(b, lanes, "k3", 0, "died")
	seen := b.find(localtable.Filter{})
	for _, row := range seen {
		b.Age(t, row.Message.ID, 2*time.Hour)
	}
	rows := b.read(lanes, most)
	b.settle(3, settlement(lanes, results(
		delivered(b.row(rows, "sent")), one(retried(b.row(rows, "failed"), time.Hour)), one(died(b.row(rows, "died"))),
	)...))
	before := b.find(localtable.Filter{})
	b.decide(0, localtable.VerbRetry, seen...)
	b.decide(0, localtable.VerbSkip, seen...)
	require.Equal(t, before, b.find(localtable.Filter{}))
	require.Equal(t, 2, b.held("failed").Attempts)
	require.Equal(t, 1, b.kept())
}

func leftDecided[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	stuck(b, lanes, "k", 1, "a", "b")
	rows := b.due(lanes, "a")
	b.decide(1, localtable.VerbRetry, b.held("a"))
	before := b.find(localtable.Filter{})
	b.settle(0, settlement(lanes, died(rows[0])))
	b.settle(0, settlement(lanes, delivered(rows...)...))
	require.Equal(t, before, b.find(localtable.Filter{}))
	b.settle(1, settlement(lanes, delivered(b.read(lanes, most)...)...))
	require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
}

func onlyOne[Tx any](t *testing.T, b *bench[Tx]) {
	const rounds = 20
	lanes := b.all()
	for i := range rounds {
		id := fmt.Sprint("m", i)
		stuck(b, lanes, id, 1, id, id+"-behind")
		row, seen := b.due(lanes, id)[0], b.held(id)
		var settled int
		var decided []localtable.Ref
		var group errgroup.Group
		group.Go(func() (err error) {
			settled, err = b.Store.Settle(b.ctx, settlement(lanes, delivered(row)...))
			return err
		})
		group.Go(func() (err error) {
			decided, err = b.Operator.Decide(b.ctx, localtable.Decision{Verb: localtable.VerbRetry, Reason: because, Refs: []localtable.Ref{seen.Ref()}})
			return err
		})
		require.NoError(t, group.Wait())
		require.Equal(t, 1, settled+len(decided))
		require.Len(t, b.audit(localtable.AuditFilter{ID: id}), len(decided))
		if len(decided) > 0 {
			b.settle(1, settlement(lanes, delivered(b.read(lanes, most)...)...))
		}
		b.settle(1, settlement(lanes, delivered(b.read(lanes, most)...)...))
	}
	require.Equal(t, localtable.Status{}, b.status())
	require.Equal(t, 2*rounds, b.kept())
}

func onlyOneVerb[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	deadHead(b, lanes, "k", "a", "b")
	ref := b.held("a").Ref()
	verbs := []localtable.Verb{localtable.VerbRetry, localtable.VerbSkip, localtable.VerbRelease, localtable.VerbSkip}
	changed := make([]int, len(verbs))
	var group errgroup.Group
	for i, verb := range verbs {
		group.Go(func() error {
			refs, err := b.Operator.Decide(b.ctx, localtable.Decision{Verb: verb, Reason: because, Refs: []localtable.Ref{ref}, Unpark: most})
			changed[i] = len(refs)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 1, changed[0]+changed[1]+changed[2]+changed[3])
	require.Len(t, b.audit(localtable.AuditFilter{}), 1)
	if changed[0] == 0 {
		require.Equal(t, []string{"b"}, ids(b.read(lanes, most)))
	}
}

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func retentionTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"archived rows are kept until they are pruned", retentionKept[Tx]},
		{"without the archive delivered rows are gone at once", retentionDeleted[Tx]},
		{"C34 pruning removes what was delivered long enough ago, and nothing that was not", retentionPrune[Tx]},
		{"pruning goes in bounded steps", retentionBounded[Tx]},
	}
}

// send writes n messages and delivers them.
func (b *bench[Tx]) send(lanes []localtable.Lane, prefix string, n int, archive bool) {
	b.t.Helper()
	b.write(plain(prefix, n)...)
	s := settlement(lanes, delivered(b.read(lanes, most)...)...)
	s.Archive = archive
	b.settle(n, s)
}

func (b *bench[Tx]) prune(retention time.Duration, limit int) int {
	b.t.Helper()
	removed, err := b.Store.PruneMessages(b.ctx, retention, limit)
	require.NoError(b.t, err)
	return removed
}

func retentionKept[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.send(lanes, "m", 3, true)
	require.Zero(t, b.prune(time.Hour, most))
	b.AgeDelivered(t, 2*time.Hour)
	require.Equal(t, 3, b.prune(time.Hour, most))
	require.Zero(t, b.prune(time.Hour, most))
	b.send(lanes, "n", 2, true)
	require.Equal(t, 2, b.kept(), "there is space after a pruning")
}

func retentionDeleted[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.send(lanes, "m", 3, false)
	require.Equal(t, localtable.Status{}, b.status())
	require.Zero(t, b.kept())
}

func retentionPrune[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.send(lanes, "old", 3, true)
	b.AgeDelivered(t, 2*time.Hour)
	b.send(lanes, "new", 2, true)
	b.write(txmsg.Message{ID: "waiting", Topic: "t", Body: []byte("x"), Delay: 96 * time.Hour})
	stuck(b, lanes, "k1", 1, "retry", "parked")
	b.write(keyed("k2", "dead")...)
	b.settle(1, settlement(lanes, died(b.row(b.read(lanes, most), "dead"))))
	b.write(keyed("k3", "ready")...)
	for _, id := range []string{"waiting", "retry", "parked", "dead", "ready"} {
		b.Age(t, id, 48*time.Hour)
	}
	want := localtable.Status{Ready: 1, Waiting: 1, Retry: 1, Parked: 1, Dead: 1}
	require.Equal(t, want, b.status())
	require.Equal(t, 3, b.prune(time.Hour, most))
	require.Equal(t, want, b.status(), "pruning touched rows that are not delivered")
	require.Equal(t, 2, b.kept())
}

func retentionBounded[Tx any](t *testing.T, b *bench[Tx]) {
	b.send(b.all(), "m", 5, true)
	b.AgeDelivered(t, 2*time.Hour)
	require.Equal(t, 2, b.prune(time.Hour, 2))
	require.Equal(t, 2, b.prune(time.Hour, 2))
	require.Equal(t, 1, b.prune(time.Hour, 2))
	require.Zero(t, b.prune(time.Hour, 2))
}

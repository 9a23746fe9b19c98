//go:build !race

package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCost measures against a time that a walk over the rows would take many times.
func TestCost(t *testing.T) {
	t.Parallel()
	db := setup(t)
	lease, err := db.Lease(t.Context(), "me", time.Hour)
	require.NoError(t, err)
	bulk(t, db, 20_000, "waiting", `i`)
	bulk(t, db, 1, "retry", `'stuck'`)
	bulk(t, db, 20_000, "parked", `'stuck'`)
	bulk(t, db, 10_000, "retry", `i`)
	bulk(t, db, 10_000, "parked", `i`)
	bulk(t, db, 100, "ready", `'fresh'`)
	bulk(t, db, 100, "ready", `'stuck'`)
	bulk(t, db, 20_000, "ready", `i`)

	require.Less(t, fastest(func() {
		rows, err := db.Read(t.Context(), "d", lease.Lanes, 200)
		require.NoError(t, err)
		require.Len(t, rows, 200)
		require.False(t, rows[0].Follower)
		require.True(t, rows[199].Follower)
	}), 30*time.Millisecond, "Read")
	require.Less(t, fastest(func() {
		swept, err := db.Sweep(t.Context(), "me", lease.Lanes, 100)
		require.NoError(t, err)
		require.Zero(t, swept)
	}), time.Second, "Sweep, of 10,001 keys")
}

func fastest(act func()) time.Duration {
	best := time.Hour
	for range 5 {
		start := time.Now()
		act()
		best = min(best, time.Since(start))
	}
	return best
}

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func testPrune[Tx any](t *testing.T, h Harness[Tx]) {
	const retention = 24 * time.Hour
	t.Run("removes records and tombstones older than the retention, in bounded steps, and no others", func(t *testing.T) {
		ctx, store := setup(t, h)
		now := time.Now()
		var old []string
		for i := range 5 {
			old = append(old, idAt(now.Add(-retention-time.Duration(i+1)*time.Hour)))
		}
		young := []string{idAt(now.Add(-retention + time.Hour)), txmsg.NewID()}
		tx := begin(t, ctx, store)
		for _, id := range append(old[:4:4], young...) {
			require.NoError(t, store.Record(ctx, tx.Tx(), id))
		}
		require.NoError(t, tx.Commit(ctx))
		requireFence(t, ctx, store, old[4], txmsg.RolledBack)
		youngTombstone := idAt(now.Add(-retention + time.Hour))
		requireFence(t, ctx, store, youngTombstone, txmsg.RolledBack)

		for _, want := range []int{2, 2, 1, 0} {
			got, err := store.PruneHalves(ctx, retention, 2)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		for _, id := range young {
			requireFence(t, ctx, store, id, txmsg.Committed)
		}
		tx = begin(t, ctx, store)
		for _, id := range old {
			require.NoError(t, store.Record(ctx, tx.Tx(), id), "its row is gone")
		}
		require.ErrorIs(t, store.Record(ctx, tx.Tx(), youngTombstone), txmsg.ErrLostRace)
	})
}

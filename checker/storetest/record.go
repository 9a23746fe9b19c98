package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func testIdentity[Tx any](t *testing.T, h Harness[Tx]) {
	t.Run("is one for all who ask first at the same time", func(t *testing.T) {
		ctx, store := setup(t, h)
		again := h.Again(t, store)
		got := make([]string, 8)
		errs := make([]error, len(got))
		var group sync.WaitGroup
		for i := range got {
			asked := store
			if i%2 == 1 {
				asked = again
			}
			group.Go(func() { got[i], errs[i] = asked.Identity(ctx) })
		}
		group.Wait()
		for i := range got {
			require.NoError(t, errs[i])
			require.NotEmpty(t, got[i])
			require.Equal(t, got[0], got[i])
		}
	})
	t.Run("differs between databases or schemas", func(t *testing.T) {
		ctx, store := setup(t, h)
		one, err := store.Identity(ctx)
		require.NoError(t, err)
		two, err := h.Open(t).Identity(ctx)
		require.NoError(t, err)
		require.NotEqual(t, one, two)
	})
}

func testRecord[Tx any](t *testing.T, h Harness[Tx]) {
	t.Run("counts once its transaction commits, and for ever", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		require.NoError(t, tx.Commit(ctx))
		for range 5 {
			requireFence(t, ctx, store, id, txmsg.Committed)
			requireFence(t, ctx, h.Again(t, store), id, txmsg.Committed)
		}
	})
	t.Run("of several halves counts for each of them", func(t *testing.T) {
		ctx, store := setup(t, h)
		ids := []string{txmsg.NewID(), txmsg.NewID(), txmsg.NewID()}
		tx := begin(t, ctx, store)
		for _, id := range ids {
			require.NoError(t, store.Record(ctx, tx.Tx(), id))
		}
		require.NoError(t, tx.Commit(ctx))
		for _, id := range ids {
			requireFence(t, ctx, store, id, txmsg.Committed)
		}
	})
	t.Run("never counts after a rollback", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		require.NoError(t, tx.Rollback(ctx))
		for range 5 {
			requireFence(t, ctx, store, id, txmsg.RolledBack)
			requireFence(t, ctx, h.Again(t, store), id, txmsg.RolledBack)
		}
	})
	t.Run("after a tombstone has lost the race and stops the commit", func(t *testing.T) {
		ctx, store := setup(t, h)
		first, fenced, last := txmsg.NewID(), txmsg.NewID(), txmsg.NewID()
		requireFence(t, ctx, store, fenced, txmsg.RolledBack)
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), first))
		require.ErrorIs(t, store.Record(ctx, tx.Tx(), fenced), txmsg.ErrLostRace)
		require.Error(t, store.Record(ctx, tx.Tx(), last), "the transaction is dead")
		err := tx.Commit(ctx)
		require.Error(t, err)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		for _, id := range []string{first, fenced, last} {
			requireFence(t, ctx, store, id, txmsg.RolledBack)
		}
	})
	t.Run("that was forgotten does not count, and the others do", func(t *testing.T) {
		ctx, store := setup(t, h)
		kept, forgotten := txmsg.NewID(), txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), forgotten))
		require.NoError(t, store.Record(ctx, tx.Tx(), kept))
		require.NoError(t, store.Forget(ctx, tx.Tx(), forgotten))
		require.NoError(t, tx.Commit(ctx))
		requireFence(t, ctx, store, kept, txmsg.Committed)
		requireFence(t, ctx, store, forgotten, txmsg.RolledBack)
	})
	t.Run("that is forgotten in a transaction that rolls back does not count", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		require.NoError(t, store.Forget(ctx, tx.Tx(), id))
		require.NoError(t, tx.Rollback(ctx))
		requireFence(t, ctx, store, id, txmsg.RolledBack)
	})
}

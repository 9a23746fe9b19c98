package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func testFence[Tx any](t *testing.T, h Harness[Tx]) {
	t.Run("of a half that nobody recorded is rolled back, and for ever", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		for range 3 {
			requireFence(t, ctx, store, id, txmsg.RolledBack)
			requireFence(t, ctx, h.Again(t, store), id, txmsg.RolledBack)
		}
	})
	t.Run("by many at once gives one answer", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		got := make([]txmsg.Outcome, 8)
		errs := make([]error, len(got))
		var group sync.WaitGroup
		for i := range got {
			group.Go(func() { got[i], errs[i] = store.Fence(ctx, id, wait) })
		}
		group.Wait()
		for i := range got {
			require.NoError(t, errs[i])
			require.Equal(t, txmsg.RolledBack, got[i])
		}
	})
	t.Run("while the transaction is open is unknown within the wait and leaves no tombstone", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		for range 3 {
			start := time.Now()
			requireFence(t, ctx, store, id, txmsg.Unknown)
			took := time.Since(start)
			require.Greater(t, took, wait/2, "it waits for the transaction")
			require.Less(t, took, wait+2*time.Second, "but not for long")
		}
		require.NoError(t, tx.Commit(ctx))
		requireFence(t, ctx, store, id, txmsg.Committed)
	})
	for _, want := range []txmsg.Outcome{txmsg.Committed, txmsg.RolledBack} {
		t.Run("waits for a transaction that ends in time: "+want.String(), func(t *testing.T) {
			ctx, store := setup(t, h)
			id := txmsg.NewID()
			tx := begin(t, ctx, store)
			require.NoError(t, store.Record(ctx, tx.Tx(), id))
			type answer struct {
				outcome txmsg.Outcome
				err     error
			}
			answers := make(chan answer, 1)
			go func() {
				outcome, err := store.Fence(ctx, id, limit)
				answers <- answer{outcome, err}
			}()
			select {
			case got := <-answers:
				require.Failf(t, "the fence did not wait", "%v", got)
			case <-time.After(wait):
			}
			if want == txmsg.Committed {
				require.NoError(t, tx.Commit(ctx))
			} else {
				require.NoError(t, tx.Rollback(ctx))
			}
			got := <-answers
			require.NoError(t, got.err)
			require.Equal(t, want, got.outcome)
		})
	}
	t.Run("of a half that an open transaction has forgotten does not commit it", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		require.NoError(t, store.Forget(ctx, tx.Tx(), id))
		got, err := store.Fence(ctx, id, wait)
		require.NoError(t, err)
		require.NotEqual(t, txmsg.Committed, got)
		require.NoError(t, tx.Commit(ctx))
		requireFence(t, ctx, store, id, txmsg.RolledBack)
	})
	t.Run("whose context has ended is unknown with an error", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		require.NoError(t, tx.Commit(ctx))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		got, err := store.Fence(ended, id, wait)
		require.Error(t, err)
		require.Equal(t, txmsg.Unknown, got)
		requireFence(t, ctx, store, id, txmsg.Committed)
	})
	t.Run("ends with its context while it waits, and the transaction can still commit", func(t *testing.T) {
		ctx, store := setup(t, h)
		id := txmsg.NewID()
		tx := begin(t, ctx, store)
		require.NoError(t, store.Record(ctx, tx.Tx(), id))
		short, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		start := time.Now()
		got, _ := store.Fence(short, id, limit)
		require.Less(t, time.Since(start), limit/2)
		require.Equal(t, txmsg.Unknown, got)
		require.NoError(t, tx.Commit(ctx))
		requireFence(t, ctx, store, id, txmsg.Committed)
	})
}

package txmsgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func TestMemoryPublishedHoldsDelayedMessages(t *testing.T) {
	m := NewMemory()
	require.NoError(t, m.Transact(t.Context(), func(ctx context.Context, _ *Tx, out txmsg.Publisher) error {
		return out.Publish(ctx, txmsg.Message{ID: "1", Topic: "t", Delay: time.Hour}, txmsg.Message{ID: "2", Topic: "t"}, txmsg.Message{ID: "3", Topic: "other"})
	}))
	published := m.Published()
	require.Len(t, published, 3)
	require.Equal(t, time.Hour, published[0].Delay)

	delivery := <-m.Deliveries(t.Context(), "t")
	require.Equal(t, "2", delivery.Message.ID)
	require.Equal(t, txmsg.Source{Broker: "memory", Topic: "t", Offset: 1}, delivery.Source)
}

func TestMemoryTransaction(t *testing.T) {
	m := NewMemory()
	var kept *Tx
	require.NoError(t, m.Transact(t.Context(), func(_ context.Context, tx *Tx, _ txmsg.Publisher) error {
		kept = tx
		require.NoError(t, tx.Put("kept", "1"))
		require.NoError(t, tx.Put("deleted", "1"))
		require.NoError(t, tx.Delete("deleted"))
		_, there := tx.Get("deleted")
		require.False(t, there)
		boom := errors.New("boom")
		require.ErrorIs(t, tx.Nested(func(tx *Tx) error {
			require.NoError(t, tx.Put("kept", "2"))
			return boom
		}), boom)
		value, _ := tx.Get("kept")
		require.Equal(t, "1", value)
		return nil
	}))
	require.Equal(t, map[string]string{"kept": "1"}, m.Values())
	require.ErrorIs(t, kept.Put("late", "1"), errEnded)
	require.ErrorIs(t, kept.Delete("kept"), errEnded)
	require.ErrorIs(t, kept.Nested(func(*Tx) error { return nil }), errEnded)
}

func TestMemoryConflictUsesUpItsRuns(t *testing.T) {
	m := NewMemory()
	runs := 0
	err := m.Transact(t.Context(), func(ctx context.Context, tx *Tx, _ txmsg.Publisher) error {
		runs++
		tx.Get("contended")
		// The engine cannot see a second transaction that does not use this context.
		require.NoError(t, m.Transact(t.Context(), func(_ context.Context, tx *Tx, _ txmsg.Publisher) error {
			return tx.Put("contended", "by another")
		}))
		return nil
	})
	require.ErrorIs(t, err, ErrConflict)
	require.Equal(t, 5, runs)
}

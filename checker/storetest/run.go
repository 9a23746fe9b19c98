package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Harness makes the stores that the suite tests.
type Harness[Tx any] struct {
	// Open returns a store over a migrated and empty database or schema of its own. It takes at least 16 connections.
	Open func(t *testing.T) checker.Store[Tx]
	// Again returns another store over the database and schema of store, as a second process would have.
	Again func(t *testing.T, store checker.Store[Tx]) checker.Store[Tx]
}

// Run tests that the stores of h keep every sentence of [checker.Store].
func Run[Tx any](t *testing.T, h Harness[Tx]) {
	t.Run("identity", func(t *testing.T) { testIdentity(t, h) })
	t.Run("record", func(t *testing.T) { testRecord(t, h) })
	t.Run("fence", func(t *testing.T) { testFence(t, h) })
	t.Run("race", func(t *testing.T) { testRace(t, h) })
	t.Run("prune", func(t *testing.T) { testPrune(t, h) })
}

const (
	limit = 20 * time.Second // of one step that must not hang
	wait  = 100 * time.Millisecond
)

// setup returns an empty store and a context that ends before the test's own deadline would.
func setup[Tx any](t *testing.T, h Harness[Tx]) (context.Context, checker.Store[Tx]) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	t.Cleanup(cancel)
	return ctx, h.Open(t)
}

func begin[Tx any](t *testing.T, ctx context.Context, store checker.Store[Tx]) txmsg.Transaction[Tx] {
	tx, err := store.Begin(ctx, func() func() { return func() {} })
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		require.NoError(t, tx.Rollback(ctx))
	})
	return tx
}

func requireFence[Tx any](t *testing.T, ctx context.Context, store checker.Store[Tx], halfID string, want txmsg.Outcome) {
	t.Helper()
	got, err := store.Fence(ctx, halfID, wait)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// idAt returns a UUIDv7 of the given time.
func idAt(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id.String()
}

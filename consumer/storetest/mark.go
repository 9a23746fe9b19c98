package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runMark[Tx any](t *testing.T, open func(t *testing.T) Harness[Tx]) {
	t.Run("is first once after a commit", func(t *testing.T) {
		t.Parallel()
		h, id := open(t), txmsg.NewID()
		requireMark(t, h, "payments", id, true)
		requireMark(t, h, "payments", id, false)
		requireMark(t, h, "payments", id, false)
	})

	t.Run("knows consumers and messages apart", func(t *testing.T) {
		t.Parallel()
		h, id := open(t), txmsg.NewID()
		requireMark(t, h, "payments", id, true)
		requireMark(t, h, "mail", id, true)
		requireMark(t, h, "payments", txmsg.NewID(), true)
		requireMark(t, h, "Payments", id, true)
		requireMark(t, h, "mail", id, false)
	})

	t.Run("takes every ID that a message may have", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		longest := make([]byte, txmsg.MaxIDBytes)
		for i := range longest {
			longest[i] = 'x'
		}
		for _, id := range []string{"1", "kafka/orders/3/17", "Größe-注文", "a", "A", "it's", `"quoted"`, string(longest)} {
			requireMark(t, h, "payments", id, true)
			requireMark(t, h, "payments", id, false)
		}
	})

	t.Run("leaves nothing when its transaction is rolled back", func(t *testing.T) {
		t.Parallel()
		h, id := open(t), txmsg.NewID()
		for range 2 {
			first, err := mark(h.context(t), h, "payments", id, rollback)
			require.ErrorIs(t, err, errRollback)
			require.True(t, first)
		}
		requireMark(t, h, "payments", id, true)
	})

	t.Run("a duplicate leaves its transaction usable", func(t *testing.T) {
		t.Parallel()
		h, id, other := open(t), txmsg.NewID(), txmsg.NewID()
		requireMark(t, h, "payments", id, true)
		ctx := h.context(t)
		tx, err := h.Database.Begin(ctx, func() func() { return func() {} })
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		first, err := h.Store.Mark(ctx, tx.Tx(), "payments", id)
		require.NoError(t, err)
		require.False(t, first)
		first, err = h.Store.Mark(ctx, tx.Tx(), "payments", other)
		require.NoError(t, err)
		require.True(t, first)
		require.NoError(t, tx.Commit(ctx))
		requireMark(t, h, "payments", other, false)
	})
}

func runSimultaneous[Tx any](t *testing.T, open func(t *testing.T) Harness[Tx]) {
	t.Run("waits, and is not first after a commit", func(t *testing.T) {
		t.Parallel()
		requireWaits(t, open(t), commit, false)
	})

	t.Run("waits, and is first after a rollback", func(t *testing.T) {
		t.Parallel()
		requireWaits(t, open(t), rollback, true)
	})

	t.Run("one of many is first", func(t *testing.T) {
		t.Parallel()
		h, id := open(t), txmsg.NewID()
		results := make(chan outcome, 8)
		for range cap(results) {
			go func() { results <- try(t, h, id, commit) }()
		}
		firsts := 0
		for range cap(results) {
			got := <-results
			require.NoError(t, got.err)
			if got.first {
				firsts++
			}
		}
		require.Equal(t, 1, firsts)
	})

	t.Run("of another message does not wait", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		if h.SingleWriter {
			return
		}
		id := txmsg.NewID()
		_, err := mark(h.context(t), h, "payments", id, func(bool) error {
			requireMark(t, h, "payments", txmsg.NewID(), true)
			requireMark(t, h, "mail", id, true)
			return nil
		})
		require.NoError(t, err)
	})

	t.Run("that gives up leaves the first one alone", func(t *testing.T) {
		t.Parallel()
		h, id := open(t), txmsg.NewID()
		first, err := mark(h.context(t), h, "payments", id, func(bool) error {
			ctx, cancel := context.WithTimeout(t.Context(), settling)
			defer cancel()
			_, err := mark(ctx, h, "payments", id, commit)
			require.Error(t, err, "a Mark beside an open one")
			return nil
		})
		require.NoError(t, err)
		require.True(t, first)
		requireMark(t, h, "payments", id, false)
	})
}

type outcome struct {
	first bool
	err   error
}

func try[Tx any](t *testing.T, h Harness[Tx], id string, then func(bool) error) outcome {
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	first, err := mark(ctx, h, "payments", id, then)
	return outcome{first, err}
}

// requireWaits starts a second Mark while the first one's transaction is open, and ends that by end.
func requireWaits[Tx any](t *testing.T, h Harness[Tx], end func(bool) error, want bool) {
	t.Helper()
	id := txmsg.NewID()
	second, started := make(chan outcome, 1), make(chan struct{})
	first, err := mark(h.context(t), h, "payments", id, func(first bool) error {
		go func() {
			close(started)
			second <- try(t, h, id, commit)
		}()
		<-started
		select {
		case got := <-second:
			second <- got
			require.Failf(t, "the second Mark did not wait", "first %v, error %v", got.first, got.err)
		case <-time.After(settling):
		}
		return end(first)
	})
	if end(first) == nil {
		require.NoError(t, err)
	}
	require.True(t, first)
	got := <-second
	require.NoError(t, got.err)
	require.Equal(t, want, got.first, "the second Mark is first")
	requireMark(t, h, "payments", id, false)
}

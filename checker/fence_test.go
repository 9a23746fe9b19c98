package checker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

var errDown = errors.New("database down")

type bundle struct {
	store *storetest.Memory
	fence *checker.Fence[*storetest.MemoryTx]
	owner string
	log   *bytes.Buffer
}

func setup(t *testing.T, cfg checker.Config) bundle {
	log := &bytes.Buffer{}
	cfg.Group = "orders"
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	store := storetest.NewMemory()
	fence, err := checker.New(store, cfg)
	require.NoError(t, err)
	owner, err := fence.Identity(t.Context())
	require.NoError(t, err)
	return bundle{store, fence, owner, log}
}

func (b bundle) half() checker.Half { return checker.Half{ID: newID(time.Now()), Owner: b.owner} }

func (b bundle) record(t *testing.T, halfID string) txmsg.Transaction[*storetest.MemoryTx] {
	tx, err := b.store.Begin(t.Context(), func() func() { return func() {} })
	require.NoError(t, err)
	require.NoError(t, b.store.Record(t.Context(), tx.Tx(), halfID))
	return tx
}

func (b bundle) require(t *testing.T, half checker.Half, outcome txmsg.Outcome, reason checker.Reason) {
	t.Helper()
	got := b.fence.Check(t.Context(), half)
	require.Equal(t, outcome, got.Outcome)
	require.Equal(t, reason, got.Reason, "%v", got.Err)
}

func TestCheck(t *testing.T) {
	t.Run("commits what was recorded and rolls back what was not", func(t *testing.T) {
		b := setup(t, checker.Config{})
		committed, rolledBack := b.half(), b.half()
		require.NoError(t, b.record(t, committed.ID).Commit(t.Context()))
		require.NoError(t, b.record(t, rolledBack.ID).Rollback(t.Context()))
		for range 3 {
			b.require(t, committed, txmsg.Committed, checker.ReasonRecord)
			b.require(t, rolledBack, txmsg.RolledBack, checker.ReasonTombstone)
		}
	})
	t.Run("C01 is unknown while the transaction is open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, checker.Config{Wait: 300 * time.Millisecond})
			half := b.half()
			tx := b.record(t, half.ID)
			start := time.Now()
			b.require(t, half, txmsg.Unknown, checker.ReasonOpen)
			require.Equal(t, 300*time.Millisecond, time.Since(start))
			require.NoError(t, tx.Commit(t.Context()))
			b.require(t, half, txmsg.Committed, checker.ReasonRecord)
		})
	})
	t.Run("C03 is unknown when the database fails, and for a while without asking it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, checker.Config{ShortCircuit: time.Second})
			half := b.half()
			b.store.Inject(storetest.OpFence, storetest.Fault{Err: errDown})
			b.require(t, half, txmsg.Unknown, checker.ReasonUnavailable)
			b.require(t, half, txmsg.Unknown, checker.ReasonShortCircuit)
			require.Empty(t, b.store.Halves())
			time.Sleep(time.Second)
			b.require(t, half, txmsg.RolledBack, checker.ReasonTombstone)
		})
	})
	t.Run("C09 is unknown after a panic, and the next check works", func(t *testing.T) {
		b := setup(t, checker.Config{})
		half := b.half()
		require.NoError(t, b.record(t, half.ID).Commit(t.Context()))
		b.store.Inject(storetest.OpFence, storetest.Fault{Panic: "boom"})
		b.require(t, half, txmsg.Unknown, checker.ReasonPanic)
		b.require(t, half, txmsg.Committed, checker.ReasonRecord)
		require.Contains(t, b.log.String(), "boom")
	})
	t.Run("is unknown in bounded time when the store ignores its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, checker.Config{Timeout: 2 * time.Second})
			half := b.half()
			release := make(chan struct{})
			b.store.Inject(storetest.OpFence, storetest.Fault{Block: release})
			start := time.Now()
			b.require(t, half, txmsg.Unknown, checker.ReasonTimeout)
			require.Less(t, time.Since(start), 3*time.Second)
			close(release)
			time.Sleep(time.Second)
			b.require(t, half, txmsg.RolledBack, checker.ReasonTombstone)
		})
	})
	t.Run("does not pile up calls on a store that hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, checker.Config{ShortCircuit: time.Millisecond})
			release := make(chan struct{})
			defer close(release)
			timeouts := 0
			for range 100 {
				b.store.Inject(storetest.OpFence, storetest.Fault{Block: release})
				if b.fence.Check(t.Context(), b.half()).Reason == checker.ReasonTimeout {
					timeouts++
				}
				time.Sleep(time.Second)
			}
			require.Less(t, timeouts, 50)
		})
	})
	t.Run("C04 is unknown for another owner, with one warning a minute that names the group", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, checker.Config{})
			half := b.half()
			half.Owner = "someone else"
			for range 10 {
				b.require(t, half, txmsg.Unknown, checker.ReasonForeign)
			}
			require.Empty(t, b.store.Halves(), "nothing was fenced")
			require.Equal(t, 1, strings.Count(b.log.String(), "level=WARN"))
			require.Contains(t, b.log.String(), "group=orders")
			time.Sleep(time.Minute)
			b.require(t, half, txmsg.Unknown, checker.ReasonForeign)
			require.Equal(t, 2, strings.Count(b.log.String(), "level=WARN"))
		})
	})
	t.Run("is unknown while the identity cannot be read", func(t *testing.T) {
		store := storetest.NewMemory()
		store.Inject(storetest.OpIdentity, storetest.Fault{Err: errDown})
		fence, err := checker.New(store, checker.Config{})
		require.NoError(t, err)
		got := fence.Check(t.Context(), checker.Half{ID: newID(time.Now())})
		require.Equal(t, checker.ReasonUnavailable, got.Reason)
		require.Equal(t, txmsg.Unknown, got.Outcome)
	})
	t.Run("is unknown for an ID that is none of ours", func(t *testing.T) {
		b := setup(t, checker.Config{})
		for _, id := range []string{"", "7F0000010000", uuid.NewString()} {
			b.require(t, checker.Half{ID: id, Owner: b.owner}, txmsg.Unknown, checker.ReasonMalformed)
		}
	})
}

func TestExpired(t *testing.T) {
	const retention = 7 * 24 * time.Hour
	old := func(b bundle) checker.Half {
		return checker.Half{ID: newID(time.Now().Add(-retention / 7 * 6).Add(-time.Second)), Owner: b.owner}
	}
	t.Run("halves are unknown and never fenced", func(t *testing.T) {
		b := setup(t, checker.Config{Retention: retention})
		b.require(t, old(b), txmsg.Unknown, checker.ReasonExpired)
		require.Empty(t, b.store.Halves())
		young := checker.Half{ID: newID(time.Now().Add(-retention / 7 * 6).Add(time.Minute)), Owner: b.owner}
		b.require(t, young, txmsg.RolledBack, checker.ReasonTombstone)
	})
	t.Run("halves are committed if the service's own checker knows so, and unknown whatever else it says", func(t *testing.T) {
		for _, own := range []ownChecker{
			{outcome: txmsg.Committed},
			{outcome: txmsg.RolledBack},
			{outcome: txmsg.Unknown},
			{outcome: txmsg.Committed, err: errDown},
		} {
			b := setup(t, checker.Config{Retention: retention, Own: own})
			if own.outcome == txmsg.Committed && own.err == nil {
				b.require(t, old(b), txmsg.Committed, checker.ReasonOwn)
			} else {
				b.require(t, old(b), txmsg.Unknown, checker.ReasonExpired)
			}
			b.require(t, b.half(), txmsg.RolledBack, checker.ReasonTombstone)
		}
	})
}

type ownChecker struct {
	outcome txmsg.Outcome
	err     error
}

func (c ownChecker) Check(context.Context, txmsg.Message) (txmsg.Outcome, error) {
	return c.outcome, c.err
}

func TestRun(t *testing.T) {
	t.Run("removes what is older than the retention, also after the database failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, checker.Config{Retention: time.Hour, PruneInterval: time.Minute, PruneBatch: 2})
			for range 5 {
				b.require(t, b.half(), txmsg.RolledBack, checker.ReasonTombstone)
			}
			b.store.Inject(storetest.OpPrune, storetest.Fault{Err: errDown})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- b.fence.Run(ctx) }()
			time.Sleep(time.Hour)
			require.Len(t, b.store.Halves(), 5)
			time.Sleep(2 * time.Minute)
			require.Empty(t, b.store.Halves())
			cancel()
			require.NoError(t, <-done)
		})
	})
}

func TestConfig(t *testing.T) {
	_, err := checker.New(storetest.NewMemory(), checker.Config{Wait: 3 * time.Second, Retention: time.Minute, PruneBatch: -1})
	require.ErrorContains(t, err, "Config.Timeout must be longer than Wait (3s), got 2s")
	require.ErrorContains(t, err, "Config.Retention must be at least 1h0m0s, got 1m0s")
	require.ErrorContains(t, err, "Config.PruneBatch must be at least 1, got -1")
}

// newID returns a UUIDv7 of the given time, which need not be the wall clock's.
func newID(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id.String()
}

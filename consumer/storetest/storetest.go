package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Harness is one store in a schema or file of its own, and what the suite needs to look behind it.
type Harness[Tx any] struct {
	// Store is what is tested.
	Store consumer.Store[Tx]
	// Database begins the transactions that the suite gives to Mark.
	Database txmsg.Database[Tx]
	// SingleWriter: the database has one writing transaction at a time, so that a Mark may wait for any other one.
	SingleWriter bool
	// Patience bounds every wait for something that must happen. Defaults to 20 s.
	Patience time.Duration

	// Letters returns the dead letters of the consumer, in any order.
	Letters func(t testing.TB, consumer string) []consumer.DeadLetter
	// Age moves the time of the message's inbox row into the past.
	Age func(t testing.TB, consumer, messageID string, by time.Duration)
}

// settling is how long a test watches for something that must not happen. A fault may need longer and be missed, a store
// that is right never fails for it.
const settling = 100 * time.Millisecond

// Run runs the suite; open makes a harness for each test.
func Run[Tx any](t *testing.T, open func(t *testing.T) Harness[Tx]) {
	open = patient(open)
	t.Run("Mark", func(t *testing.T) { runMark(t, open) })
	t.Run("simultaneous Mark", func(t *testing.T) { runSimultaneous(t, open) })
	t.Run("Bury", func(t *testing.T) { runBury(t, open) })
	t.Run("PruneInbox", func(t *testing.T) { runPrune(t, open) })
}

func patient[Tx any](open func(t *testing.T) Harness[Tx]) func(t *testing.T) Harness[Tx] {
	return func(t *testing.T) Harness[Tx] {
		h := open(t)
		if h.Patience == 0 {
			h.Patience = 20 * time.Second
		}
		return h
	}
}

var errRollback = errors.New("the test rolls back")

// mark marks in a transaction of its own, calls then before the transaction ends, and commits if then returns nil. A run
// that lost a race with another transaction is run again, as the engine does.
func mark[Tx any](ctx context.Context, h Harness[Tx], name, id string, then func(first bool) error) (bool, error) {
	for {
		first, err := markOnce(ctx, h, name, id, then)
		if err != nil && !errors.Is(err, errRollback) && h.Database.Conflict(err) {
			continue
		}
		return first, err
	}
}

func markOnce[Tx any](ctx context.Context, h Harness[Tx], name, id string, then func(first bool) error) (first bool, err error) {
	tx, err := h.Database.Begin(ctx, func() func() { return func() {} })
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.Patience)
		defer cancel()
		if rollback := tx.Rollback(ctx); err == nil {
			err = rollback
		}
	}()
	first, err = h.Store.Mark(ctx, tx.Tx(), name, id)
	if err != nil {
		return false, err
	}
	if err := then(first); err != nil {
		return first, err
	}
	return first, tx.Commit(ctx)
}

func commit(bool) error   { return nil }
func rollback(bool) error { return errRollback }

func requireMark[Tx any](t *testing.T, h Harness[Tx], name, id string, want bool) {
	t.Helper()
	first, err := mark(h.context(t), h, name, id, commit)
	require.NoError(t, err)
	require.Equal(t, want, first, "first Mark of %s by %s", id, name)
}

func (h Harness[Tx]) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	t.Cleanup(cancel)
	return ctx
}

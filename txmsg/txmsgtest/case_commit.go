package txmsgtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func commitCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{
			name:  "an error of COMMIT is returned and sends nothing",
			needs: func(h Hooks[Tx]) bool { return h.FailCommit != nil },
			run:   testFailedCommit[Tx],
		},
		{
			name:  "a database error that the callback swallows is not reported as committed unless it is",
			needs: func(h Hooks[Tx]) bool { return h.FailStatement != nil },
			run:   testSwallowedError[Tx],
		},
		{
			name:  "C12 an unclear COMMIT is never a false answer",
			needs: func(h Hooks[Tx]) bool { return len(h.UnclearCommits) > 0 },
			run: func(t *testing.T, w *world[Tx]) {
				eachFault(t, w, func(t *testing.T, w *world[Tx], fault Fault[Tx]) {
					testUnclear(t.Context(), t, w, fault, func() {})
				})
			},
		},
		{
			name:  "C12 a context that ends during COMMIT does not make it a false answer",
			needs: func(h Hooks[Tx]) bool { return len(h.UnclearCommits) > 0 },
			run: func(t *testing.T, w *world[Tx]) {
				eachFault(t, w, func(t *testing.T, w *world[Tx], fault Fault[Tx]) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					testUnclear(ctx, t, w, fault, cancel)
				})
			},
		},
	}
}

func testFailedCommit[Tx any](t *testing.T, w *world[Tx]) {
	err := w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, w.message("ghost")); err != nil {
			return err
		}
		return w.FailCommit(ctx, tx)
	})
	require.Error(t, err, "COMMIT failed and Transact returned nil")
	require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown, "the database answered COMMIT with an error: that is clear")
	m := w.message("next")
	w.commit(t, m)
	w.requireDelivered(t, m)
}

func testSwallowedError[Tx any](t *testing.T, w *world[Tx]) {
	m := w.message("whichever the database decides")
	err := w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, m); err != nil {
			return err
		}
		require.Error(t, w.FailStatement(ctx, tx))
		return nil
	})
	if err == nil { // the statement failed alone
		w.requireDelivered(t, m)
		return
	}
	require.ErrorIs(t, err, txmsg.ErrRolledBack)
	w.requireDelivered(t)
}

// eachFault runs test with every fault, in a world of its own but the first.
func eachFault[Tx any](t *testing.T, w *world[Tx], test func(t *testing.T, w *world[Tx], fault Fault[Tx])) {
	for i, fault := range w.UnclearCommits {
		t.Run(fault.Name, func(t *testing.T) {
			if i > 0 {
				w = newWorld(t, w.harness)
			}
			test(t, w, w.UnclearCommits[i])
		})
	}
}

// testUnclear commits under fault and compares what Transact said with what became of it. during runs when the COMMIT has met
// the fault.
func testUnclear[Tx any](ctx context.Context, t *testing.T, w *world[Tx], fault Fault[Tx], during func()) {
	before := w.message("before the fault")
	w.commit(t, before)
	var hits atomic.Int64
	runs, stop := 0, func() {}
	defer func() { stop() }()
	msgs := []txmsg.Message{w.message("unclear"), w.message("unclear")}
	err := w.messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, msgs...); err != nil {
			return err
		}
		if runs++; runs == 1 {
			stop = sync.OnceFunc(fault.Start(t, tx, func() {
				hits.Add(1)
				during()
			}))
		}
		return nil
	})
	stop()
	require.Positive(t, hits.Load(), "no COMMIT met the fault: the case shows nothing")
	require.Equal(t, 1, runs, "runs of the callback: an unclear COMMIT must not be tried again")

	outcome := map[string]error{before.ID: nil}
	for _, m := range msgs {
		outcome[m.ID] = err
	}
	if fault.Committed {
		require.True(t, err == nil || errors.Is(err, txmsg.ErrOutcomeUnknown), "the transaction committed, and Transact said: %v", err)
		w.in.await(t, w.wait, 1, msgs[0].ID, msgs[1].ID)
	} else {
		require.Error(t, err, "the transaction did not commit, and Transact returned nil")
	}
	var unknown *txmsg.OutcomeUnknownError
	if errors.As(err, &unknown) {
		require.Equal(t, []string{msgs[0].ID, msgs[1].ID}, unknown.MessageIDs)
	}
	w.requireHonest(t, outcome, append(msgs, before))
}

// requireHonest requires of every transaction, by what Transact returned for it: nil means row and message, unknown
// means both or none, another error none. It ends when the unknown ones agree.
func (w *world[Tx]) requireHonest(t *testing.T, outcome map[string]error, msgs []txmsg.Message) {
	t.Helper()
	for _, m := range msgs {
		if outcome[m.ID] == nil {
			w.in.await(t, w.wait, 1, m.ID)
		}
	}
	w.settle(t)
	eventually(t, w.wait, func() string { return w.dishonest(t, outcome) })
	w.settle(t) // what the agreement rests on is still so behind one more sentinel
	require.Empty(t, w.dishonest(t, outcome))
}

// dishonest names a transaction whose row, message and answer disagree, or returns "".
func (w *world[Tx]) dishonest(t *testing.T, outcome map[string]error) string {
	rows, err := w.Rows(t.Context())
	if err != nil {
		return err.Error()
	}
	arrived := w.in.ids()
	for id, err := range outcome {
		row, message := slices.Contains(rows, id), arrived[id] > 0
		switch {
		case row != message:
			return describeOutcome(id, row, message, err)
		case err == nil && !row, err != nil && !errors.Is(err, txmsg.ErrOutcomeUnknown) && row:
			return describeOutcome(id, row, message, err)
		}
	}
	return ""
}

package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

// races is how many random interleavings of one commit and its fences the suite tries.
const races = 400

func testRace[Tx any](t *testing.T, h Harness[Tx]) {
	t.Run("a commit and its fences never both win", func(t *testing.T) {
		ctx, store := setup(t, h)
		again := h.Again(t, store)
		results := make(chan race, races)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range races / 4 {
					results <- runRace(ctx, store, again)
				}
			})
		}
		group.Wait()
		close(results)
		won, lost := 0, 0
		for r := range results {
			require.NoError(t, r.err)
			want := txmsg.RolledBack
			if r.committed {
				want = txmsg.Committed
				won++
			} else {
				lost++
			}
			require.Equal(t, want, r.last)
			for _, got := range r.answers {
				if got != txmsg.Unknown {
					require.Equal(t, want, got)
				}
			}
		}
		require.Positive(t, won, "no commit ever won: the interleavings do not reach both sides")
		require.Positive(t, lost, "no fence ever won: the interleavings do not reach both sides")
	})
}

// race is how one commit against two fences ended.
type race struct {
	committed bool
	answers   []txmsg.Outcome // of the fences that raced
	last      txmsg.Outcome   // of a fence after all had ended
	err       error           // what may not happen
}

func runRace[Tx any](ctx context.Context, store, again checker.Store[Tx]) race {
	id := txmsg.NewID()
	result := race{answers: make([]txmsg.Outcome, 2)}
	errs := make([]error, len(result.answers)+2)
	var group sync.WaitGroup
	for i, fencing := range []checker.Store[Tx]{store, again} {
		group.Go(func() {
			pauseAtRandom()
			result.answers[i], errs[i] = fencing.Fence(ctx, id, 1+rand.N(20*time.Millisecond))
		})
	}
	group.Go(func() { result.committed, errs[2] = commitRacing(ctx, store, id) })
	group.Wait()
	result.last, errs[3] = again.Fence(ctx, id, limit)
	result.err = errors.Join(errs...)
	return result
}

// commitRacing records id and commits. A lost race is no error; an error that is anything else is.
func commitRacing[Tx any](ctx context.Context, store checker.Store[Tx], id string) (bool, error) {
	pauseAtRandom()
	tx, err := store.Begin(ctx, func() func() { return func() {} })
	if err != nil {
		return false, err
	}
	if err := store.Record(ctx, tx.Tx(), id); err != nil {
		if !errors.Is(err, txmsg.ErrLostRace) {
			return false, errors.Join(err, tx.Rollback(ctx))
		}
		if rand.N(2) == 0 { // as a caller would that swallows the error
			if tx.Commit(ctx) == nil {
				return true, nil
			}
		}
		return false, tx.Rollback(ctx)
	}
	pauseAtRandom()
	if err := tx.Commit(ctx); err != nil {
		return false, err
	}
	return true, nil
}

func pauseAtRandom() {
	timer := time.NewTimer(rand.N(5 * time.Millisecond))
	<-timer.C
}

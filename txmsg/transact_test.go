package txmsg

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
)

var errCallback = errors.New("the callback's own error")

func TestTransactCommits(t *testing.T) {
	var b bench
	require.NoError(t, b.transact(t.Context(), publish(message("1"), message("2"))))
	require.Equal(t, []string{"1", "2"}, b.written())
	require.Equal(t, []Outcome{Committed}, b.ends())
	require.Zero(t, b.db.last().rolledBack)
}

func TestTransactErrorOfCallbackRollsBack(t *testing.T) {
	b := bench{db: fakeDB{rollback: errors.New("connection is gone")}}
	err := b.transact(t.Context(), func(context.Context, *fakeTx, Publisher) error { return errCallback })
	require.ErrorIs(t, err, errCallback)
	require.ErrorIs(t, err, b.db.rollback)
	require.Equal(t, 1, b.db.last().rolledBack)
	require.Equal(t, []Outcome{RolledBack}, b.ends())
	require.Zero(t, b.attempts[0].prepared)
}

func TestTransactPanicRollsBackAndGoesOnUp(t *testing.T) {
	var b bench
	require.PanicsWithValue(t, "boom", func() {
		_ = b.transact(t.Context(), func(context.Context, *fakeTx, Publisher) error { panic("boom") })
	})
	require.Equal(t, 1, b.db.last().rolledBack)
	require.Equal(t, []Outcome{RolledBack}, b.ends())
}

func TestTransactGoexitRollsBack(t *testing.T) {
	var b bench
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.transact(t.Context(), func(context.Context, *fakeTx, Publisher) error {
			runtime.Goexit()
			return nil
		})
	}()
	<-done
	require.Equal(t, 1, b.db.last().rolledBack)
	require.Equal(t, []Outcome{RolledBack}, b.ends())
}

func TestTransactRollsBackWithoutTheCallersContext(t *testing.T) {
	var b bench
	ctx, cancel := context.WithCancel(t.Context())
	err := b.transact(ctx, func(context.Context, *fakeTx, Publisher) error {
		cancel()
		return errCallback
	})
	require.ErrorIs(t, err, errCallback)
	require.NoError(t, b.db.last().ctxErr)
}

func TestTransactContextEndedBeforeCommit(t *testing.T) {
	var b bench
	ctx, cancel := context.WithCancel(t.Context())
	err := b.transact(ctx, func(context.Context, *fakeTx, Publisher) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, b.db.last().rolledBack)
	require.Equal(t, []Outcome{RolledBack}, b.ends())
}

func TestTransactContextEndedDuringCommitDoesNotCancelIt(t *testing.T) {
	var b bench
	ctx, cancel := context.WithCancel(t.Context())
	b.db.commit = []func(context.Context) error{func(commitCtx context.Context) error {
		cancel()
		return commitCtx.Err()
	}}
	require.NoError(t, b.transact(ctx, publish(message("1"))))
	require.Equal(t, []Outcome{Committed}, b.ends())
}

func TestTransactCommitAndResolveAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bench{cfg: TransactConfig{CommitTimeout: 2 * time.Second, ResolveTimeout: 3 * time.Second}}
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return unclear(ctx)
		}
		b.db.commit = []func(context.Context) error{hang}
		begin := time.Now()
		var commitEnd time.Time
		err := Transact(t.Context(), &b.db, b.cfg, func(tx Transaction[*fakeTx]) Attempt {
			return &slowResolve{fakeAttempt: fakeAttempt{tx: tx}, began: &commitEnd}
		}, publish(message("1")))
		require.ErrorIs(t, err, ErrOutcomeUnknown)
		require.Equal(t, 2*time.Second, commitEnd.Sub(begin))
		require.Equal(t, 5*time.Second, time.Since(begin))
	})
}

type slowResolve struct {
	fakeAttempt
	began *time.Time
}

func (s *slowResolve) Resolve(ctx context.Context) Outcome {
	*s.began = time.Now()
	<-ctx.Done()
	return Unknown
}

func TestTransactNestedIsRefused(t *testing.T) {
	var b bench
	require.NoError(t, b.transact(t.Context(), func(ctx context.Context, _ *fakeTx, out Publisher) error {
		require.ErrorIs(t, b.transact(ctx, publish()), ErrNested)
		return out.Publish(ctx, message("1"))
	}))
	require.Len(t, b.db.runs, 1)
	require.Equal(t, []string{"1"}, b.written())
}

func TestTransactPublishAfterTheEndIsRefused(t *testing.T) {
	for name, result := range map[string]error{"commit": nil, "rollback": errCallback} {
		t.Run(name, func(t *testing.T) {
			var b bench
			var kept Publisher
			_ = b.transact(t.Context(), func(_ context.Context, _ *fakeTx, out Publisher) error {
				kept = out
				return result
			})
			require.ErrorIs(t, kept.Publish(t.Context(), message("1")), ErrPublisherClosed)
			require.Empty(t, b.attempts[0].Messages())
		})
	}
	t.Run("while the transaction is prepared", func(t *testing.T) {
		var kept Publisher
		b := bench{each: func(a *fakeAttempt) {
			a.prepare = func() error { return kept.Publish(context.Background(), message("1")) }
		}}
		err := b.transact(t.Context(), func(_ context.Context, _ *fakeTx, out Publisher) error {
			kept = out
			return nil
		})
		require.ErrorIs(t, err, ErrPublisherClosed)
	})
}

func TestTransactRunsAgainWithTheSameIDsAndNoLeftovers(t *testing.T) {
	commitConflict := func(context.Context) error { return fmt.Errorf("commit: %w", errConflict) }
	for name, first := range map[string]struct {
		begin  error
		commit func(context.Context) error
		fn     error
	}{
		"conflict in the callback":  {fn: fmt.Errorf("update: %w", errConflict)},
		"lost race in the callback": {fn: fmt.Errorf("record: %w", ErrLostRace)},
		"conflict at COMMIT":        {commit: commitConflict},
	} {
		t.Run(name, func(t *testing.T) {
			b := bench{db: fakeDB{commit: []func(context.Context) error{first.commit}}}
			runs := 0
			require.NoError(t, b.transact(t.Context(), func(ctx context.Context, _ *fakeTx, out Publisher) error {
				runs++
				if err := out.Publish(ctx, Message{Topic: "orders"}, Message{Topic: "orders"}); err != nil {
					return err
				}
				if runs == 1 {
					require.NoError(t, out.Publish(ctx, message("leftover")))
					return first.fn
				}
				return nil
			}))
			require.Equal(t, 2, runs)
			require.Equal(t, []Outcome{RolledBack, Committed}, b.ends())
			given := []string{b.attempts[0].Messages()[0].ID, b.attempts[0].Messages()[1].ID}
			require.NotEqual(t, given[0], given[1])
			require.Equal(t, given, b.written())
		})
	}
	t.Run("conflict in BEGIN", func(t *testing.T) {
		b := bench{db: fakeDB{begin: []error{errConflict}}}
		require.NoError(t, b.transact(t.Context(), publish(message("1"))))
		require.Len(t, b.db.runs, 2)
	})
}

func TestTransactRunsAreUsedUp(t *testing.T) {
	for name, c := range map[string]struct {
		runs, want int
		err        error
	}{
		"lost race, default": {0, 5, ErrLostRace},
		"conflict, two":      {2, 2, errConflict},
		"another error":      {5, 1, errCallback},
		"unclear":            {5, 1, ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			b := bench{cfg: TransactConfig{Runs: c.runs}}
			err := b.transact(t.Context(), func(context.Context, *fakeTx, Publisher) error { return fmt.Errorf("run: %w", c.err) })
			require.ErrorIs(t, err, c.err)
			require.Len(t, b.db.runs, c.want)
		})
	}
}

func TestTransactDoesNotRunAgainAfterTheContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := bench{cfg: TransactConfig{Runs: 100}}
	err := b.transact(ctx, func(context.Context, *fakeTx, Publisher) error {
		cancel()
		return errConflict
	})
	require.ErrorIs(t, err, errConflict)
	require.Len(t, b.db.runs, 1)
}

func TestTransactUnclearCommit(t *testing.T) {
	for outcome, check := range map[Outcome]func(t *testing.T, err error){
		Committed: func(t *testing.T, err error) { require.NoError(t, err) },
		RolledBack: func(t *testing.T, err error) {
			require.ErrorIs(t, err, ErrRolledBack)
			require.NotErrorIs(t, err, ErrOutcomeUnknown)
			require.ErrorContains(t, err, errReply.Error())
		},
		Unknown: func(t *testing.T, err error) {
			var unknown *OutcomeUnknownError
			require.ErrorAs(t, err, &unknown)
			require.ErrorIs(t, err, ErrOutcomeUnknown)
			require.ErrorIs(t, err, errReply)
			require.Equal(t, []string{"1", "3"}, unknown.MessageIDs)
		},
	} {
		t.Run(outcome.String(), func(t *testing.T) {
			b := bench{db: fakeDB{commit: []func(context.Context) error{unclear}, outcome: outcome}}
			check(t, b.transact(t.Context(), func(ctx context.Context, tx *fakeTx, out Publisher) error {
				require.NoError(t, out.Publish(ctx, message("1")))
				rollback := tx.savepoint()
				require.NoError(t, out.Publish(ctx, message("2")))
				rollback()
				return out.Publish(ctx, message("3"))
			}))
			require.Len(t, b.db.runs, 1, "an unclear COMMIT is not tried again")
			require.Zero(t, b.db.last().rolledBack)
			require.Equal(t, []Outcome{outcome}, b.ends())
		})
	}
}

func TestTransactPanicInCommitIsUnknown(t *testing.T) {
	b := bench{db: fakeDB{commit: []func(context.Context) error{func(context.Context) error { panic("driver") }}}}
	require.Panics(t, func() { _ = b.transact(t.Context(), publish(message("1"))) })
	require.Equal(t, []Outcome{Unknown}, b.ends())
	require.Zero(t, b.db.last().rolledBack)
}

func TestTransactErrorOfPrepareRollsBack(t *testing.T) {
	b := bench{each: func(a *fakeAttempt) { a.prepare = func() error { return errCallback } }}
	require.ErrorIs(t, b.transact(t.Context(), publish(message("1"))), errCallback)
	require.Equal(t, 1, b.db.last().rolledBack)
	require.Equal(t, []Outcome{RolledBack}, b.ends())
}

func TestTransactErrorOfCommitIsReturned(t *testing.T) {
	b := bench{db: fakeDB{commit: []func(context.Context) error{func(context.Context) error { return ErrRolledBack }}}}
	require.ErrorIs(t, b.transact(t.Context(), publish(message("1"))), ErrRolledBack)
	require.Equal(t, []Outcome{RolledBack}, b.ends())
}

func TestTransactSavepoints(t *testing.T) {
	var b bench
	require.NoError(t, b.transact(t.Context(), func(ctx context.Context, tx *fakeTx, out Publisher) error {
		put := func(id string) { require.NoError(t, out.Publish(ctx, message(id))) }
		put("1")
		outer := tx.savepoint()
		put("outer")
		inner := tx.savepoint()
		put("inner")
		outer()
		inner() // late: it must bring nothing back and take nothing away
		put("2")
		tx.savepoint() // of a nested transaction that commits
		put("3")
		failed := tx.savepoint()
		put("failed")
		failed()
		return nil
	}))
	require.Equal(t, []string{"1", "2", "3"}, b.written())
}

func TestTransactPublish(t *testing.T) {
	limit := func(m Message) error { return CheckSize(m, 200) }
	cases := map[string]struct {
		cfg     TransactConfig
		backend error
		msgs    []Message
		want    error
	}{
		"invalid":        {msgs: []Message{message("1"), {Topic: "no topic"}}},
		"delay":          {msgs: []Message{message("1"), {Topic: "t", Delay: 1}}, want: ErrUnsupported},
		"too large":      {cfg: TransactConfig{Check: limit}, msgs: []Message{message("1"), {Topic: "t", Body: make([]byte, 200)}}, want: ErrTooLarge},
		"backend's word": {backend: errCallback, msgs: []Message{message("1")}, want: errCallback},
	}
	for name, c := range cases {
		t.Run(name+" takes none of the call", func(t *testing.T) {
			b := bench{cfg: c.cfg, each: func(a *fakeAttempt) { a.publish = c.backend }}
			require.NoError(t, b.transact(t.Context(), func(ctx context.Context, _ *fakeTx, out Publisher) error {
				err := out.Publish(ctx, c.msgs...)
				require.Error(t, err)
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
				}
				return nil
			}))
			require.Empty(t, b.written())
		})
	}
	t.Run("delay is taken where the backend can", func(t *testing.T) {
		b := bench{cfg: TransactConfig{Abilities: Abilities{Delay: true}}}
		require.NoError(t, b.transact(t.Context(), publish(Message{ID: "1", Topic: "t", Delay: 1})))
		require.Equal(t, []string{"1"}, b.written())
	})
}

func TestTransactInjectsTheTrace(t *testing.T) {
	before := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	const traceparent = "00-01000000000000000000000000000000-0200000000000000-01"

	own := Message{ID: "2", Topic: "t", Headers: map[string]string{"traceparent": "mine"}}
	other := Message{ID: "3", Topic: "t", Headers: map[string]string{"tenant": "a"}}
	var b bench
	require.NoError(t, b.transact(ctx, publish(message("1"), own, other)))
	msgs := b.attempts[0].Messages()
	require.Equal(t, map[string]string{"traceparent": traceparent}, msgs[0].Headers)
	require.Equal(t, map[string]string{"traceparent": "mine"}, msgs[1].Headers)
	require.Equal(t, map[string]string{"traceparent": traceparent, "tenant": "a"}, msgs[2].Headers)
	require.Equal(t, map[string]string{"tenant": "a"}, other.Headers, "the caller's map")
}

func TestPublishSideBySide(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 50
	var b bench
	require.NoError(t, b.transact(t.Context(), func(ctx context.Context, _ *fakeTx, out Publisher) error {
		var group errgroup.Group
		for range goroutines {
			group.Go(func() error {
				for range each {
					if err := out.Publish(ctx, Message{Topic: "t"}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	}))
	ids := map[string]bool{}
	for _, m := range b.attempts[0].Messages() {
		ids[m.ID] = true
	}
	require.Len(t, b.attempts[0].Messages(), goroutines*each)
	require.Len(t, ids, goroutines*each, "identities")
}

func TestTransactNeedsACallback(t *testing.T) {
	t.Parallel()
	var b bench
	require.ErrorContains(t, b.transact(t.Context(), nil), "fn must not be nil")
}

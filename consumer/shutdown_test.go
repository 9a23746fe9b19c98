package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// The bubbles of these tests end only when no goroutine is left.
func TestShutdown(t *testing.T) {
	t.Run("C63 handlers under way finish first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			for i := range 50 {
				b.publish(t, message(fmt.Sprint(i)))
			}
			var begun atomic.Int64
			n := b.start(t, func(ctx context.Context, tx *storetest.Tx, _ txmsg.Message, out txmsg.Publisher) error {
				begun.Add(1)
				<-time.After(2 * time.Second)
				if err := b.apply(tx); err != nil {
					return err
				}
				return out.Publish(ctx, txmsg.Message{Topic: "payments"})
			})
			require.EqualValues(t, 50, begun.Load())
			b.publish(t, message("later"))
			begin := time.Now()
			n.stop(t)
			require.Less(t, time.Since(begin), 10*time.Second)
			require.Equal(t, begun.Load(), b.applied.Load())
			require.Len(t, b.messenger.messages(), int(begun.Load()))
			require.EqualValues(t, 51-begun.Load(), b.pending())
			require.Empty(t, b.logs.above(slog.LevelInfo))
		})
	})

	t.Run("C64 a handler that ignores its context is left behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.DrainTimeout = 3 * time.Second
			b.publish(t, message("stuck"), message("heeds"), message("done"))
			var restarted atomic.Bool
			h := func(ctx context.Context, tx *storetest.Tx, m txmsg.Message, _ txmsg.Publisher) error {
				switch {
				case restarted.Load():
				case m.ID == "stuck":
					<-time.After(time.Minute)
				case m.ID == "heeds":
					<-ctx.Done()
					return ctx.Err()
				}
				return b.apply(tx)
			}
			n := b.start(t, h)
			begin := time.Now()
			n.cancel()
			err := <-n.done
			require.LessOrEqual(t, time.Since(begin), 3500*time.Millisecond)
			abandoned := new(consumer.AbandonedError)
			require.True(t, errors.As(err, &abandoned), "got %v", err)
			require.Equal(t, []string{"stuck"}, abandoned.MessageIDs)
			require.Equal(t, 2, b.pending())
			require.EqualValues(t, 1, b.applied.Load())

			restarted.Store(true)
			n = b.start(t, h)
			settled(2 * time.Minute) // the handler that was left behind returns, and is rolled back
			require.EqualValues(t, 3, b.applied.Load())
			require.Zero(t, b.pending())
			n.stop(t)
		})
	})

	t.Run("handlers that heed their context need no longer than the drain timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.DrainTimeout, b.cfg.Attempts = 3*time.Second, 1
			b.publish(t, message("1"))
			n := b.start(t, func(ctx context.Context, _ *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				<-ctx.Done()
				return consumer.Permanent(fmt.Errorf("stopped: %w", context.Cause(ctx)))
			})
			begin := time.Now()
			n.stop(t)
			require.Equal(t, 3*time.Second, time.Since(begin))
			require.Equal(t, 1, b.pending())
			require.Empty(t, b.store.Letters(group), "a shutdown spends no attempt")
		})
	})

	t.Run("a backoff ends at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.BackoffMin, b.cfg.BackoffMax = time.Hour, time.Hour
			b.publish(t, message("1"))
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error { return errors.New("no") })
			requireStopsAtOnce(t, n)
			require.Equal(t, 1, b.pending())
		})
	})

	t.Run("a wait for the database ends at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.publish(t, message("1"))
			b.store.SetFaults(storetest.Faults{Down: true})
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error { return nil })
			settled(time.Minute)
			requireStopsAtOnce(t, n)
			require.Equal(t, 1, b.pending())
			require.Zero(t, b.logs.count("consumer goes on"))
		})
	})

	t.Run("a burial that cannot be done ends at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			b.publish(t, message("1"))
			b.store.SetFaults(storetest.Faults{Bury: 1000})
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error { return errors.New("no") })
			settled(time.Minute)
			requireStopsAtOnce(t, n)
			require.Equal(t, 1, b.pending())
		})
	})

	t.Run("a subscriber that cannot go on does not cut the handlers off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			broken := errors.New("no such topic")
			c, err := consumer.New(&b.messenger, &b.store, failsBeside{broken}, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				<-time.After(5 * time.Second)
				return b.apply(tx)
			}, b.cfg)
			require.NoError(t, err)
			require.ErrorIs(t, c.Run(t.Context()), broken)
			require.EqualValues(t, 1, b.applied.Load())
		})
	})

	t.Run("a message of a subscriber that goes on is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			late := &lateSubscriber{}
			c, err := consumer.New(&b.messenger, &b.store, late, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error {
				t.Error("the handler was called")
				return nil
			}, b.cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, c.Run(ctx))
			require.Error(t, late.answer)
		})
	})

	t.Run("a delivery that the subscriber takes back spends no attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			back := &takesBack{}
			c, err := consumer.New(&b.messenger, &b.store, back, func(ctx context.Context, _ *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				<-ctx.Done()
				return ctx.Err()
			}, b.cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, cancel)
			require.NoError(t, c.Run(ctx))
			require.Error(t, back.answer)
			require.Empty(t, b.store.Letters(group))
		})
	})
}

func requireStopsAtOnce(t *testing.T, n *node) {
	t.Helper()
	begin := time.Now()
	n.stop(t)
	require.Zero(t, time.Since(begin))
}

// lateSubscriber delivers a message after its context has ended.
type lateSubscriber struct{ answer error }

func (s *lateSubscriber) Run(ctx context.Context, deliver func(context.Context, txmsg.Delivery) error) error {
	<-ctx.Done()
	s.answer = deliver(context.WithoutCancel(ctx), txmsg.Delivery{Message: message("late")})
	return nil
}

// takesBack ends the context of a delivery under way.
type takesBack struct{ answer error }

func (s *takesBack) Run(ctx context.Context, deliver func(context.Context, txmsg.Delivery) error) error {
	delivery, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	s.answer = deliver(delivery, txmsg.Delivery{Message: message("1")})
	<-ctx.Done()
	return nil
}

// failsBeside fails while a delivery is under way.
type failsBeside struct{ err error }

func (s failsBeside) Run(ctx context.Context, deliver func(context.Context, txmsg.Delivery) error) error {
	go func() { _ = deliver(context.WithoutCancel(ctx), txmsg.Delivery{Message: message("1")}) }()
	<-time.After(time.Second)
	return s.err
}

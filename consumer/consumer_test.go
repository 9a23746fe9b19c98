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

func TestConsume(t *testing.T) {
	t.Run("each message takes effect once, with what its handler publishes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			for i := range 100 {
				id := fmt.Sprint(i)
				m := txmsg.Message{ID: id, Topic: topic, Key: fmt.Sprint(i % 7), Type: "order.created", Sequence: int64(i), Body: []byte{0, byte(i)}, Headers: map[string]string{"a": id}}
				b.publish(t, m, m) // a second copy of each
			}
			want := b.broker.Messages(topic)
			n := b.start(t, func(ctx context.Context, tx *storetest.Tx, m txmsg.Message, out txmsg.Publisher) error {
				if !m.Equal(want[2*m.Sequence]) {
					return fmt.Errorf("got %+v", m)
				}
				if err := b.apply(tx); err != nil {
					return err
				}
				return out.Publish(ctx, txmsg.Message{Topic: "payments", Key: m.ID})
			})
			n.stop(t)
			require.EqualValues(t, 100, b.applied.Load())
			require.Len(t, b.messenger.messages(), 100)
			require.Equal(t, 100, b.store.Marked(group))
			require.Zero(t, b.pending())
			require.Empty(t, b.logs.above(slog.LevelInfo))
		})
	})

	t.Run("C50 two copies of one message at the same time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			var atOnce, most atomic.Int64
			h := func(ctx context.Context, tx *storetest.Tx, m txmsg.Message, out txmsg.Publisher) error {
				most.Store(max(most.Load(), atOnce.Add(1)))
				defer atOnce.Add(-1)
				<-time.After(200 * time.Millisecond)
				if err := b.apply(tx); err != nil {
					return err
				}
				return out.Publish(ctx, txmsg.Message{Topic: "payments"})
			}
			one, two := b.start(t, h), b.start(t, h)
			for range 8 {
				b.publish(t, message("same"))
			}
			settled(time.Second)
			require.EqualValues(t, 1, b.applied.Load())
			require.EqualValues(t, 1, most.Load())
			require.Len(t, b.messenger.messages(), 1)
			require.Zero(t, b.pending(), "copies that were not acknowledged")
			require.Empty(t, b.logs.above(slog.LevelInfo))
			one.stop(t)
			two.stop(t)
		})
	})

	t.Run("a copy takes over when the first one's handler fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.publish(t, message("same"), message("same"))
			var calls atomic.Int64
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				if calls.Add(1) == 1 {
					<-time.After(time.Second)
					return errors.New("the first fails")
				}
				return b.apply(tx)
			})
			settled(time.Minute)
			require.EqualValues(t, 2, calls.Load())
			require.EqualValues(t, 1, b.applied.Load())
			require.Zero(t, b.pending())
			n.stop(t)
		})
	})

	t.Run("a subscriber that cannot go on ends Run with its error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			broken := errors.New("no such topic")
			for _, want := range []error{broken, nil} {
				c, err := consumer.New(&b.messenger, &b.store, endsWith{want}, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error { return nil }, b.cfg)
				require.NoError(t, err)
				err = c.Run(t.Context())
				require.Error(t, err)
				if want != nil {
					require.ErrorIs(t, err, want)
				}
			}
		})
	})
}

// endsWith is a subscriber that returns at once.
type endsWith struct{ err error }

func (s endsWith) Run(context.Context, func(context.Context, txmsg.Delivery) error) error {
	return s.err
}

func TestConfig(t *testing.T) {
	b := setup()
	open := func(h handler, cfg consumer.Config) error {
		_, err := consumer.New(&b.messenger, &b.store, b.broker.Subscriber(group, topic), h, cfg)
		return err
	}
	ok := func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error { return nil }

	t.Run("a name is enough", func(t *testing.T) {
		require.NoError(t, open(ok, consumer.Config{Name: "payments"}))
	})
	t.Run("all problems are reported together", func(t *testing.T) {
		err := open(nil, consumer.Config{
			Attempts: -1, BackoffMin: -1, BackoffMax: time.Nanosecond, HandlerTimeout: -1, DrainTimeout: -1,
			Retention: time.Minute, PruneInterval: time.Millisecond, PruneBatch: -5,
		})
		for _, want := range []string{
			`Config.Name must be 1 to 127 letters, digits, '.', '_' and '-', got ""`,
			"Config.Attempts must be at least 1, got -1",
			"Config.BackoffMin must be at least 1ms, got -1ns",
			"Config.HandlerTimeout must be at least 1ms, got -1ns",
			"Config.DrainTimeout must be at least 1ms, got -1ns",
			"Config.Retention must be at least 1h0m0s, got 1m0s",
			"Config.PruneInterval must be at least 1s, got 1ms",
			"Config.PruneBatch must be at least 1, got -5",
			"handler must not be nil",
		} {
			require.ErrorContains(t, err, want)
		}
	})
	t.Run("a backoff that shrinks is refused", func(t *testing.T) {
		err := open(ok, consumer.Config{Name: "payments", BackoffMin: time.Minute})
		require.ErrorContains(t, err, "Config.BackoffMax must be at least BackoffMin (1m0s), got 30s")
	})
}

package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// In these tests one attempt is all there is: what spends one buries the message.
func TestOutage(t *testing.T) {
	t.Run("a database that is away spends no attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			for i := range 20 {
				b.publish(t, message(fmt.Sprint(i)))
			}
			b.store.SetFaults(storetest.Faults{Down: true})
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				return b.apply(tx)
			})
			settled(20 * time.Minute)
			require.Zero(t, b.applied.Load())
			require.Equal(t, 1, b.logs.count("consumer waits"))
			require.Zero(t, b.logs.count("consumer goes on"))
			b.store.SetFaults(storetest.Faults{})
			settled(10 * time.Second)
			require.EqualValues(t, 20, b.applied.Load())
			require.Equal(t, 1, b.logs.count("consumer waits"))
			require.Equal(t, 1, b.logs.count("consumer goes on"))
			require.Empty(t, b.store.Letters(group))
			n.stop(t)
		})
	})

	t.Run("a database that goes away under the handler spends no attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			b.publish(t, message("1"))
			var calls atomic.Int64
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				if calls.Add(1) == 1 {
					b.store.SetFaults(storetest.Faults{Down: true})
					return errors.New("connection reset by peer")
				}
				return b.apply(tx)
			})
			settled(time.Minute)
			b.store.SetFaults(storetest.Faults{})
			settled(time.Minute)
			require.EqualValues(t, 2, calls.Load())
			require.EqualValues(t, 1, b.applied.Load())
			require.Empty(t, b.store.Letters(group))
			n.stop(t)
		})
	})

	t.Run("a database that hangs is given up and asked again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts, b.cfg.HandlerTimeout = 1, 10*time.Second
			tx, err := b.store.Begin(t.Context(), nil)
			require.NoError(t, err)
			_, err = b.store.Mark(t.Context(), tx.Tx(), group, "1")
			require.NoError(t, err)
			b.publish(t, message("1"))
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				return b.apply(tx)
			})
			settled(time.Minute)
			require.Equal(t, 1, b.logs.count("consumer waits"))
			require.NoError(t, tx.Rollback(t.Context()))
			settled(time.Minute)
			require.EqualValues(t, 1, b.applied.Load())
			require.Empty(t, b.store.Letters(group))
			n.stop(t)
		})
	})

	t.Run("a commit that hangs is given up and run again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts, b.cfg.HandlerTimeout = 1, 10*time.Second
			b.messenger.hang = 2
			b.publish(t, message("1"))
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				<-time.After(9 * time.Second)
				return b.apply(tx)
			})
			settled(2 * time.Minute)
			require.EqualValues(t, 1, b.applied.Load())
			require.Empty(t, b.store.Letters(group))
			n.stop(t)
		})
	})

	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprintf("an unclear commit is run again (it committed: %v)", committed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup()
				b.cfg.Attempts = 1
				b.publish(t, message("1"))
				b.store.SetFaults(storetest.Faults{Unclear: 1, UnclearCommitted: committed})
				var calls atomic.Int64
				n := b.start(t, func(ctx context.Context, tx *storetest.Tx, _ txmsg.Message, out txmsg.Publisher) error {
					calls.Add(1)
					if err := b.apply(tx); err != nil {
						return err
					}
					return out.Publish(ctx, txmsg.Message{Topic: "payments"})
				})
				settled(time.Minute)
				require.EqualValues(t, 1, b.applied.Load())
				require.Len(t, b.messenger.messages(), 1)
				require.Empty(t, b.store.Letters(group))
				require.Zero(t, b.pending())
				want := int64(2)
				if committed {
					want = 1
				}
				require.Equal(t, want, calls.Load())
				n.stop(t)
			})
		})
	}

	t.Run("what is not the handler's fault spends no attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			b.messenger.fail = []error{
				fmt.Errorf("rocketmq: %w", txmsg.ErrLostRace), fmt.Errorf("rocketmq: %w", txmsg.ErrOutage), txmsg.ErrClosed,
				errors.New("no connection"),
			}
			b.publish(t, message("1"))
			var calls atomic.Int64
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				switch calls.Add(1) {
				case 1:
					return fmt.Errorf("publish: %w", txmsg.ErrOutage)
				case 2:
					return fmt.Errorf("publish: %w", txmsg.ErrClosed)
				}
				return b.apply(tx)
			})
			settled(time.Minute)
			require.EqualValues(t, 3, calls.Load())
			require.EqualValues(t, 1, b.applied.Load())
			require.Empty(t, b.store.Letters(group))
			n.stop(t)
		})
	})

	t.Run("a driver that panics spends no attempt and harms nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			s := &panics{Memory: &b.store}
			c, err := consumer.New(&b.messenger, s, b.broker.Subscriber(group, topic), func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				return b.apply(tx)
			}, b.cfg)
			require.NoError(t, err)
			b.publish(t, message("1"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, c.Run(ctx))
			require.EqualValues(t, 3, s.calls.Load())
			require.EqualValues(t, 1, b.applied.Load())
			require.Empty(t, b.store.Letters(group))
		})
	})

	t.Run("a broker that is away under the handler is logged once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			b.publish(t, message("1"))
			var up atomic.Bool
			var calls atomic.Int64
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				if calls.Add(1); !up.Load() {
					return fmt.Errorf("publish: %w", txmsg.ErrOutage)
				}
				return b.apply(tx)
			})
			settled(time.Hour)
			require.Greater(t, calls.Load(), int64(500))
			require.Equal(t, 1, b.logs.count("consumer waits"))
			up.Store(true)
			settled(time.Minute)
			require.Equal(t, 1, b.logs.count("consumer goes on"))
			require.EqualValues(t, 1, b.applied.Load())
			n.stop(t)
		})
	})

	t.Run("a message is not acknowledged before it is buried", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 1
			first, later := message("1"), message("2")
			first.Key, later.Key = "k", "k"
			b.publish(t, first, later)
			b.store.SetFaults(storetest.Faults{Bury: 5})
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, m txmsg.Message, _ txmsg.Publisher) error {
				if m.ID == "1" {
					return errors.New("never")
				}
				if len(b.store.Letters(group)) == 0 {
					t.Error("the next message of the key came before the burial")
				}
				return b.apply(tx)
			})
			settled(time.Minute)
			require.Len(t, b.store.Letters(group), 1)
			require.EqualValues(t, 1, b.applied.Load())
			require.Zero(t, b.pending())
			require.Equal(t, 1, b.logs.count("consumer waits"))
			n.stop(t)
		})
	})
}

// panics is a store whose first Marks panic.
type panics struct {
	*storetest.Memory
	calls atomic.Int64
}

func (p *panics) Mark(ctx context.Context, tx *storetest.Tx, name, messageID string) (bool, error) {
	if p.calls.Add(1) < 3 {
		panic("a driver's mistake")
	}
	return p.Memory.Mark(ctx, tx, name, messageID)
}

package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestRetry(t *testing.T) {
	t.Run("backoff doubles up to its limit and the last attempt buries", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts, b.cfg.BackoffMin, b.cfg.BackoffMax = 8, time.Second, 20*time.Second
			m := message("1")
			m.Key, m.Headers = "k", map[string]string{"Trace": "1"}
			later := message("2")
			later.Key = "k"
			b.publish(t, m, later)
			var times []time.Time
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, m txmsg.Message, _ txmsg.Publisher) error {
				if m.ID == "2" {
					return b.apply(tx)
				}
				times = append(times, time.Now())
				tx.OnCommit(func() { t.Error("a failed attempt was committed") })
				require.Equal(t, "1", string(m.Body), "what an attempt does to its message stays with it")
				m.Body[0], m.Headers["Trace"] = 'x', "x"
				return fmt.Errorf("attempt %d", len(times))
			})
			settled(10 * time.Minute)
			n.stop(t)

			require.Len(t, times, 8)
			for i := range len(times) - 1 {
				want := min(time.Second<<i, 20*time.Second)
				got := times[i+1].Sub(times[i])
				require.GreaterOrEqual(t, got, want/2-time.Millisecond, "pause %d", i+1)
				require.LessOrEqual(t, got, want*3/2+time.Millisecond, "pause %d", i+1)
			}
			letters := b.store.Letters(group)
			require.Len(t, letters, 1)
			require.True(t, m.Equal(letters[0].Message), "%+v", letters[0].Message)
			require.Equal(t, txmsg.Source{Broker: "memory", Topic: topic, Partition: "0"}, letters[0].Source)
			require.Equal(t, 8, letters[0].Attempts)
			require.Len(t, letters[0].Errors, 8)
			require.Equal(t, "attempt 1", letters[0].Errors[0])
			require.Equal(t, "attempt 8", letters[0].Errors[7])
			require.EqualValues(t, 1, b.applied.Load(), "the later message of the key")
			require.Zero(t, b.pending())
		})
	})

	t.Run("a dead letter keeps the last errors only, and short", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 25
			b.publish(t, message("1"))
			calls := 0
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error {
				calls++
				return fmt.Errorf("attempt %d \x00 \xff %s", calls, strings.Repeat("ü", 50_000))
			})
			settled(time.Hour)
			n.stop(t)
			letter := b.store.Letters(group)[0]
			require.Equal(t, 25, letter.Attempts)
			require.Len(t, letter.Errors, 10)
			require.Less(t, len(letter.Errors[9]), 20_000)
			require.True(t, strings.HasPrefix(letter.Errors[9], "attempt 25 \uFFFD \uFFFD üü"), letter.Errors[9][:40])
			require.NotContains(t, letter.Errors[9], "\x00")
		})
	})

	t.Run("a permanent error buries at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.publish(t, message("1"))
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error {
				return fmt.Errorf("decode: %w", consumer.Permanent(fmt.Errorf("no such field: %w", txmsg.ErrOutage)))
			})
			letter := b.store.Letters(group)[0]
			require.Equal(t, 1, letter.Attempts)
			require.Equal(t, []string{"decode: no such field: broker unreachable"}, letter.Errors)
			require.Zero(t, b.pending())
			require.NoError(t, consumer.Permanent(nil))
			n.stop(t)
		})
	})

	t.Run("a commit that fails for what the handler did is a failed attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 2
			b.store.SetFaults(storetest.Faults{Commit: []error{errors.New("deferred constraint"), errors.New("deferred constraint")}})
			b.publish(t, message("1"))
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				return b.apply(tx)
			})
			settled(time.Minute)
			require.Zero(t, b.applied.Load())
			require.Len(t, b.store.Letters(group), 1)
			require.Equal(t, []string{"deferred constraint", "deferred constraint"}, b.store.Letters(group)[0].Errors)
			n.stop(t)
		})
	})

	t.Run("a handler that takes too long has failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts, b.cfg.HandlerTimeout = 2, 5*time.Second
			b.publish(t, message("1"))
			begin := time.Now()
			var took []time.Duration
			n := b.start(t, func(ctx context.Context, _ *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				begin := time.Now()
				<-ctx.Done()
				took = append(took, time.Since(begin))
				return ctx.Err()
			})
			settled(time.Minute)
			require.Less(t, time.Since(begin), 2*time.Minute)
			require.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, took)
			require.Equal(t, "handler ran into its timeout of 5s: context deadline exceeded", b.store.Letters(group)[0].Errors[0])
			n.stop(t)
		})
	})

	t.Run("a handler that ignores its timeout is reported and may finish", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.HandlerTimeout = time.Second
			b.publish(t, message("1"))
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				<-time.After(10 * time.Second)
				return b.apply(tx)
			})
			settled(time.Minute)
			require.Equal(t, 1, b.logs.count("handler ignores its timeout"))
			require.EqualValues(t, 1, b.applied.Load())
			n.stop(t)
		})
	})
}

func TestPanic(t *testing.T) {
	t.Run("C54 handler panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 4
			for i := range 10 {
				b.publish(t, message(fmt.Sprint(i+1)))
			}
			var fixed atomic.Bool
			var calls atomic.Int64
			var body *txmsg.Message
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, m txmsg.Message, _ txmsg.Publisher) error {
				if m.ID == "5" && !fixed.Load() {
					calls.Add(1)
					_ = b.apply(tx)
					return errors.New(string(body.Body)) // a nil dereference
				}
				return b.apply(tx)
			})
			settled(10 * time.Minute)
			require.EqualValues(t, 9, b.applied.Load())
			require.EqualValues(t, 4, calls.Load())
			letters := b.store.Letters(group)
			require.Len(t, letters, 1)
			require.Equal(t, "5", letters[0].Message.ID)
			require.Contains(t, letters[0].Errors[3], "nil pointer dereference")
			require.Contains(t, letters[0].Errors[3], "retry_test.go", "the stack")
			require.Equal(t, 9, b.store.Marked(group))
			require.Zero(t, b.pending())

			fixed.Store(true)
			b.publish(t, message("5")) // the replay
			settled(time.Second)
			require.EqualValues(t, 10, b.applied.Load())
			n.stop(t)
		})
	})

	t.Run("a handler that ends its goroutine has failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Attempts = 2
			b.publish(t, message("1"))
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error {
				runtime.Goexit()
				return nil
			})
			settled(time.Minute)
			require.Equal(t, []string{"handler ended its goroutine", "handler ended its goroutine"}, b.store.Letters(group)[0].Errors)
			n.stop(t)
		})
	})
}

func TestMalformed(t *testing.T) {
	t.Run("is buried at once, with what could be read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			require.NoError(t, b.broker.PublishRaw(t.Context(), topic, []byte("body"), map[string]string{
				txmsg.HeaderID: "the-id", txmsg.HeaderSequence: "seven", txmsg.HeaderKey: "k", "x\x00": "\xfe",
			}))
			n := b.start(t, func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error {
				t.Error("the handler was called")
				return nil
			})
			letter := b.store.Letters(group)[0]
			require.Equal(t, "the-id", letter.Message.ID)
			require.Equal(t, "k", letter.Message.Key)
			require.Equal(t, map[string]string{"x\uFFFD": "\uFFFD"}, letter.Message.Headers)
			require.Equal(t, "body", string(letter.Message.Body))
			require.Zero(t, letter.Attempts)
			require.Len(t, letter.Errors, 1)
			require.Contains(t, letter.Errors[0], "must be a whole number")
			require.Zero(t, b.pending())
			n.stop(t)
		})
	})

	t.Run("an ID that no store can keep is replaced by the place", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			for i, id := range []string{"", "\x00", "\xff", strings.Repeat("x", 1000)} {
				d := txmsg.Delivery{
					Message: txmsg.Message{ID: id, Topic: topic, Key: "k\x00\xff"},
					Source:  txmsg.Source{Broker: "kafka", Topic: topic, Partition: "3", Offset: int64(i)},
				}
				require.NoError(t, b.runOnce(t, &oneDelivery{d}))
			}
			var ids []string
			for _, letter := range b.store.Letters(group) {
				ids = append(ids, letter.Message.ID)
				require.Equal(t, "k\uFFFD\uFFFD", letter.Message.Key)
				require.Len(t, letter.Errors, 1)
			}
			require.ElementsMatch(t, []string{"kafka/orders/3/0", "kafka/orders/3/1", "kafka/orders/3/2", "kafka/orders/3/3"}, ids)
			require.Zero(t, b.applied.Load(), "the handler was called")
		})
	})
}

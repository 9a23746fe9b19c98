package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

const (
	commit   = primitive.CommitMessageState
	rollback = primitive.RollbackMessageState
)

type states = []primitive.LocalTransactionState

var errFn = errors.New("the callback's error")

func TestTransact(t *testing.T) {
	test := func(name string, fn func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, fn) })
	}

	test("settles every half as committed after the commit, without a check", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a", "b", "c")))
		synctest.Wait()
		require.Equal(t, states{commit, commit, commit}, b.broker.settled())
		require.ElementsMatch(t, []string{"a", "b", "c"}, b.broker.delivered())
	})
	test("settles every half as rolled back when the callback fails", func(t *testing.T) {
		b := setup(t)
		err := b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("a", "b")(ctx, tx, out))
			synctest.Wait()
			return errFn
		})
		require.ErrorIs(t, err, errFn)
		synctest.Wait()
		require.Equal(t, states{rollback, rollback}, b.broker.settled())
		require.Zero(t, b.store.Rows())
	})
	test("settles every half as rolled back when the callback panics", func(t *testing.T) {
		b := setup(t)
		require.PanicsWithValue(t, "boom", func() {
			_ = b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
				require.NoError(t, publish("a")(ctx, tx, out))
				synctest.Wait()
				panic("boom")
			})
		})
		synctest.Wait()
		require.Equal(t, states{rollback}, b.broker.settled())
	})
	test("stores while the callback goes on", func(t *testing.T) {
		b := setup(t)
		start := time.Now()
		b.broker.inject(sendFault{delay: time.Second})
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("a")(ctx, tx, out))
			time.Sleep(time.Second)
			return nil
		}))
		require.Equal(t, time.Second, time.Since(start))
	})
	test("does not commit before every half is stored", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{}, sendFault{delay: 1500 * time.Millisecond})
		done := make(chan error, 1)
		go func() { done <- b.messenger.Transact(t.Context(), publish("a", "b")) }()
		time.Sleep(1400 * time.Millisecond)
		require.Zero(t, b.store.Rows())
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, 2, b.store.Rows())
		require.NoError(t, <-done)
	})
	test("rolls back in bounded time when the broker hangs, and a half that it stores late is rolled back", func(t *testing.T) {
		b := setup(t)
		start := time.Now()
		b.broker.inject(sendFault{delay: time.Hour})
		err := b.messenger.Transact(t.Context(), publish("a"))
		var failed *StoreError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "a", failed.MessageID)
		require.ErrorIs(t, err, txmsg.ErrOutage)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.Zero(t, b.store.Rows())
		time.Sleep(time.Hour)
		require.Equal(t, states{rollback}, b.broker.settled())
	})
	test("C10 tries a half whose reply is lost again as a new half, and the old one is never delivered", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{}, sendFault{lost: errTimeout}, sendFault{lost: errTimeout, delay: time.Second})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a", "b")))
		synctest.Wait()
		require.ElementsMatch(t, []string{"a", "b"}, b.broker.delivered())
		b.broker.check()
		require.ElementsMatch(t, []string{"a", "b"}, b.broker.delivered())
		require.NotContains(t, b.broker.settled(), primitive.LocalTransactionState(0))
		ids := map[string]bool{}
		for _, h := range b.broker.halves {
			ids[h.id] = true
		}
		require.Len(t, ids, len(b.broker.halves), "one ID was used for two halves")
	})
	test("C10 delivers nothing when a transaction with a lost reply is rolled back", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{lost: errTimeout}, sendFault{lost: errTimeout}, sendFault{lost: errTimeout})
		err := b.messenger.Transact(t.Context(), publish("a"))
		require.ErrorIs(t, err, txmsg.ErrOutage)
		b.broker.check()
		require.Equal(t, states{rollback, rollback, rollback}, b.broker.settled())
		require.Zero(t, b.store.Rows())
	})
	test("a half that is stored after it was replaced is rolled back, while the transaction is open and later", func(t *testing.T) {
		b := setup(t, func(c *Config) { c.Tries = 2 })
		b.broker.inject(sendFault{lost: errTimeout, delay: time.Second}, sendFault{delay: 2 * time.Second})
		done := make(chan error, 1)
		go func() { done <- b.messenger.Transact(t.Context(), publish("a")) }()
		time.Sleep(1500 * time.Millisecond)
		b.broker.check()
		require.Equal(t, states{0, 0}, b.broker.settled(), "unknown while the transaction is open")
		require.NoError(t, <-done)
		synctest.Wait()
		b.broker.check()
		require.Equal(t, states{rollback, commit}, b.broker.settled())
	})
	for _, status := range []primitive.SendStatus{primitive.SendFlushDiskTimeout, primitive.SendFlushSlaveTimeout, primitive.SendSlaveNotAvailable} {
		test(fmt.Sprintf("C11 send status %d is an error and nothing is committed", status), func(t *testing.T) {
			b := setup(t)
			b.broker.inject(sendFault{status: status}, sendFault{status: status}, sendFault{status: status})
			err := b.messenger.Transact(t.Context(), publish("a"))
			var failed *StoreError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, 3, failed.Tries)
			require.Zero(t, b.store.Rows())
			require.Empty(t, b.broker.delivered())
		})
	}
	test("C11 an error of the callback comes back wrapped although the broker has the half", func(t *testing.T) {
		b := setup(t)
		err := b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			return errors.Join(publish("a")(ctx, tx, out), errFn)
		})
		require.ErrorIs(t, err, errFn)
		require.Zero(t, b.store.Rows())
	})
	test("does not try again what the broker refuses", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{err: errors.New("CODE: 13, DESC: the message is illegal")})
		err := b.messenger.Transact(t.Context(), publish("a"))
		require.ErrorIs(t, err, txmsg.ErrRefused)
		require.Empty(t, b.broker.halves)
	})
	test("tries again what the broker is too busy for", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{err: errors.New("CODE: 2, DESC: [TIMEOUT_CLEAN_QUEUE]broker busy")})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		synctest.Wait()
		require.Equal(t, []string{"a"}, b.broker.delivered())
	})
	test("forgets what was published in a nested transaction that is rolled back", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("a")(ctx, tx, out))
			require.ErrorIs(t, tx.Nested(func() error {
				require.NoError(t, publish("ghost")(ctx, tx, out))
				synctest.Wait()
				return errFn
			}), errFn)
			return publish("b")(ctx, tx, out)
		}))
		synctest.Wait()
		require.ElementsMatch(t, []string{"a", "b"}, b.broker.delivered())
		require.ElementsMatch(t, states{commit, rollback, commit}, b.broker.settled())
	})
	test("does not try again what was published in a nested transaction that is rolled back", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{lost: errTimeout})
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.ErrorIs(t, tx.Nested(func() error {
				require.NoError(t, publish("ghost")(ctx, tx, out))
				synctest.Wait()
				return errFn
			}), errFn)
			return publish("a")(ctx, tx, out)
		}))
		synctest.Wait()
		b.broker.check()
		require.Equal(t, []string{"a"}, b.broker.delivered())
	})
	test("does not commit without a message whose record failed, even if the callback swallows the error", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpRecord, storetest.Fault{Err: errFn})
		err := b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			_ = out.Publish(ctx, message("a"))
			return nil
		})
		require.ErrorIs(t, err, errFn)
	})
	test("commits when the nested transaction in which a record failed is rolled back", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			b.store.Inject(storetest.OpRecord, storetest.Fault{Err: errFn})
			require.ErrorIs(t, tx.Nested(func() error { return out.Publish(ctx, message("a")) }), errFn)
			return publish("b")(ctx, tx, out)
		}))
		synctest.Wait()
		require.Equal(t, []string{"b"}, b.broker.delivered())
	})
	test("runs again with new halves after a lost race, also when the callback swallows it", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpRecord, storetest.Fault{}, storetest.Fault{Err: fmt.Errorf("half: %w", txmsg.ErrLostRace)})
		runs := 0
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			runs++
			require.NoError(t, out.Publish(ctx, message("a")))
			synctest.Wait()
			_ = out.Publish(ctx, message("b"))
			return nil
		}))
		require.Equal(t, 2, runs)
		synctest.Wait()
		require.Equal(t, states{rollback, commit, commit}, b.broker.settled())
	})
	test("C15 runs again with new halves after a conflict", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Err: storetest.ErrConflict})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		synctest.Wait()
		require.Equal(t, states{rollback, commit}, b.broker.settled())
	})
	test("a caller whose context ends rolls back, and the client never sees that context", func(t *testing.T) {
		b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.broker.inject(sendFault{delay: time.Second})
		done := make(chan error, 1)
		go func() { done <- b.messenger.Transact(ctx, publish("a")) }()
		time.Sleep(500 * time.Millisecond)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		time.Sleep(time.Second)
		require.Equal(t, states{rollback}, b.broker.settled())
		require.False(t, b.broker.canceled)
	})
	test("stores a bounded number at once, and transactions may have more messages than that", func(t *testing.T) {
		b := setup(t, func(c *Config) { c.MaxStoring = 3 })
		var ids []string
		for i := range 50 {
			ids = append(ids, fmt.Sprint(i))
			b.broker.inject(sendFault{delay: 10 * time.Millisecond})
		}
		require.NoError(t, b.messenger.Transact(t.Context(), publish(ids...)))
		synctest.Wait()
		require.ElementsMatch(t, ids, b.broker.delivered())
		require.Equal(t, 3, b.broker.most)
	})
	test("an empty body arrives empty and not nil", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, _ memoryTx, out txmsg.Publisher) error {
			return out.Publish(ctx, txmsg.Message{Topic: "orders"}, txmsg.Message{Topic: "orders", Body: []byte{}}, txmsg.Message{Topic: "orders", Body: []byte{0}})
		}))
		synctest.Wait()
		lengths := map[int]int{}
		for _, h := range b.broker.halves {
			require.NotEmpty(t, h.ext.Body, "the broker fails on a body of no bytes")
			require.NotNil(t, h.message.Body)
			require.Empty(t, h.message.Headers)
			lengths[len(h.message.Body)]++
		}
		require.Equal(t, map[int]int{0: 2, 1: 1}, lengths)
	})
}

func TestRefusedMessages(t *testing.T) {
	for _, row := range []struct {
		name    string
		message txmsg.Message
		err     error
		field   string
	}{
		{"C08 a delay", txmsg.Message{Topic: "orders", Delay: 3 * time.Second}, txmsg.ErrUnsupported, ""},
		{"a topic that is not listed", txmsg.Message{Topic: "unlisted"}, txmsg.ErrNoRoute, "Topic"},
		{"a topic with a dot", txmsg.Message{Topic: "or.ders"}, nil, "Topic"},
		{"a body beyond the broker's limit", txmsg.Message{Topic: "orders", Body: make([]byte, 4<<20+1)}, txmsg.ErrTooLarge, "Body"},
		{"C48 a header that would forge a property", txmsg.Message{Topic: "orders", Headers: map[string]string{"a": "b\x02TRAN_MSG\x01true"}}, nil, `Headers["a"]`},
	} {
		t.Run(row.name+" is refused before anything is sent", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
					err := out.Publish(ctx, message("good"), row.message)
					if row.err != nil {
						require.ErrorIs(t, err, row.err)
					}
					if row.field != "" {
						var invalid *txmsg.InvalidMessageError
						require.ErrorAs(t, err, &invalid)
						require.Equal(t, row.field, invalid.Field)
					}
					require.Error(t, err)
					return nil
				}))
				synctest.Wait()
				require.Empty(t, b.broker.halves)
				require.Empty(t, b.store.Halves())
			})
		})
	}
}

package rocketmq

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestUnclearCommit(t *testing.T) {
	test := func(name string, fn func(t *testing.T)) {
		t.Run("C12 "+name, func(t *testing.T) { synctest.Test(t, fn) })
	}
	test("that took effect is nil and delivers", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Lost: storetest.LostReply})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		synctest.Wait()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("whose session ends without it is an error that says so", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Lost: storetest.LostCommit})
		time.AfterFunc(3*time.Second, b.store.Reap)
		err := b.messenger.Transact(t.Context(), publish("a"))
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		synctest.Wait()
		require.Equal(t, states{rollback}, b.broker.settled())
		require.Zero(t, b.store.Rows())
	})
	test("that nobody can say anything about is unknown, and a check decides", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Lost: storetest.LostCommit})
		err := b.messenger.Transact(t.Context(), publish("a", "b"))
		var unknown *txmsg.OutcomeUnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, []string{"a", "b"}, unknown.MessageIDs)
		synctest.Wait()
		require.Equal(t, states{0, 0}, b.broker.settled(), "neither commit nor rollback was said")
		b.broker.check()
		require.Equal(t, states{0, 0}, b.broker.settled(), "the session is still there")
		b.store.Reap()
		b.broker.check()
		require.Equal(t, states{rollback, rollback}, b.broker.settled())
	})
	test("is resolved although the database fails for a while", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Lost: storetest.LostReply})
		for range 20 {
			b.store.Inject(storetest.OpFence, storetest.Fault{Err: errFn})
		}
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		synctest.Wait()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("is not judged by a half whose nested transaction was rolled back", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Lost: storetest.LostReply})
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.ErrorIs(t, tx.Nested(func() error { return errors.Join(publish("ghost")(ctx, tx, out), errFn) }), errFn)
			return publish("a")(ctx, tx, out)
		}))
		synctest.Wait()
		require.Equal(t, []string{"a"}, b.broker.delivered())
	})
	test("of a transaction without messages is what the database says", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpCommit, storetest.Fault{Lost: storetest.LostReply}, storetest.Fault{Lost: storetest.LostCommit})
		require.NoError(t, b.messenger.Transact(t.Context(), publish()))
		require.ErrorIs(t, b.messenger.Transact(t.Context(), publish()), txmsg.ErrOutcomeUnknown)
	})
}

func TestCheck(t *testing.T) {
	test := func(name string, fn func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, fn) })
	}
	test("C01 is unknown at once while the transaction is open here", func(t *testing.T) {
		b := setup(t)
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("a")(ctx, tx, out))
			synctest.Wait()
			start := time.Now()
			b.broker.check()
			require.Equal(t, states{0}, b.broker.settled())
			require.Zero(t, time.Since(start))
			return nil
		}))
		synctest.Wait()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("C01 is unknown while the transaction is open in another process", func(t *testing.T) {
		b := setup(t)
		other := b.open(t)
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("a")(ctx, tx, out))
			synctest.Wait()
			require.NoError(t, other.Transact(t.Context(), publish())) // and now it is the last that started
			b.broker.check()
			require.Equal(t, states{0}, b.broker.settled())
			return nil
		}))
	})
	test("C02 commits again and again when the settlement was lost", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{mute: true})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		synctest.Wait()
		require.Equal(t, states{0}, b.broker.settled())
		for range 5 {
			require.Equal(t, commit, b.broker.clients[0].listener.CheckLocalTransaction(b.broker.halves[0].ext))
		}
	})
	test("commits after the client panicked behind the commit", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{crash: "nil pointer"})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		synctest.Wait()
		b.broker.check()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("commits what took longer than the hold", func(t *testing.T) {
		b := setup(t, func(c *Config) { c.HoldTimeout = 10 * time.Second })
		require.NoError(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("a")(ctx, tx, out))
			time.Sleep(11 * time.Second)
			b.broker.check()
			require.Equal(t, states{0}, b.broker.settled())
			return nil
		}))
		b.broker.check()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("is answered by another process after this one has died between commit and settlement", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{mute: true}, sendFault{mute: true})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		require.ErrorIs(t, b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
			require.NoError(t, publish("ghost")(ctx, tx, out))
			synctest.Wait()
			return errFn
		}), errFn)
		synctest.Wait()
		b.broker.clients[0].running = false
		stop := run(t, b.open(t)) // it sends nothing
		synctest.Wait()
		b.broker.check()
		require.Equal(t, states{commit, rollback}, b.broker.settled())
		stop()
	})
	test("C04 is unknown for a half of another database", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{mute: true})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		foreign := bundle{broker: b.broker, store: storetest.NewMemory()}
		require.NoError(t, foreign.open(t).Transact(t.Context(), publish()))
		b.broker.check()
		require.Equal(t, states{0}, b.broker.settled())
		require.Empty(t, foreign.store.Halves())
		require.NoError(t, b.open(t).Transact(t.Context(), publish()))
		b.broker.check()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("C09 recovers from a panic and goes on", func(t *testing.T) {
		b := setup(t)
		b.broker.inject(sendFault{mute: true}, sendFault{mute: true})
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a", "b")))
		synctest.Wait()
		b.store.Inject(storetest.OpFence, storetest.Fault{Panic: "boom"})
		b.broker.check()
		b.broker.check()
		require.Equal(t, states{commit, commit}, b.broker.settled())
		// a message that cannot even be read
		require.Equal(t, primitive.UnkonwnState, b.broker.clients[0].listener.CheckLocalTransaction(nil))
	})
}

func TestRun(t *testing.T) {
	test := func(name string, fn func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, fn) })
	}
	test("C63 waits for transactions under way, settles them and takes no more", func(t *testing.T) {
		b := setup(t)
		stop := run(t, b.messenger)
		inside, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
				close(inside)
				time.Sleep(2 * time.Second)
				return publish("a")(ctx, tx, out)
			})
		}()
		<-inside
		start := time.Now()
		stop()
		require.Less(t, time.Since(start), 3*time.Second)
		require.NoError(t, <-done)
		require.Equal(t, states{commit}, b.broker.settled())
		require.False(t, b.broker.clients[0].running)
		require.ErrorIs(t, b.messenger.Transact(t.Context(), publish("b")), txmsg.ErrClosed)
	})
	test("C64 leaves a transaction that does not end in time to a check", func(t *testing.T) {
		b := setup(t)
		stop := run(t, b.messenger)
		inside, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
				require.NoError(t, publish("a")(ctx, tx, out))
				close(inside)
				time.Sleep(time.Minute)
				return nil
			})
		}()
		<-inside
		start := time.Now()
		stop()
		require.Less(t, time.Since(start), 11*time.Second)
		require.Equal(t, states{0}, b.broker.settled())
		require.NoError(t, <-done, "it was prepared, so it may commit")
		require.NoError(t, b.open(t).Transact(t.Context(), publish()))
		b.broker.check()
		require.Equal(t, states{commit}, b.broker.settled())
	})
	test("refuses a message that comes after the drain", func(t *testing.T) {
		b := setup(t)
		stop := run(t, b.messenger)
		inside, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- b.messenger.Transact(t.Context(), func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
				close(inside)
				time.Sleep(time.Minute)
				return publish("a")(ctx, tx, out)
			})
		}()
		<-inside
		stop()
		require.ErrorIs(t, <-done, txmsg.ErrClosed)
		require.Zero(t, b.store.Rows())
	})
	test("waits for a broker that is away, during which Transact fails at once", func(t *testing.T) {
		b := setup(t)
		b.broker.setAway(true)
		stop := run(t, b.messenger)
		synctest.Wait()
		start := time.Now()
		for range 10 {
			err := b.messenger.Transact(t.Context(), func(context.Context, memoryTx, txmsg.Publisher) error {
				t.Error("the callback ran")
				return nil
			})
			require.ErrorIs(t, err, txmsg.ErrOutage)
		}
		require.Zero(t, time.Since(start))
		b.broker.setAway(false)
		time.Sleep(15 * time.Second)
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		stop()
		require.Equal(t, []string{"a"}, b.broker.delivered())
	})
	test("waits for a database that is away", func(t *testing.T) {
		b := setup(t)
		b.store.Inject(storetest.OpIdentity, storetest.Fault{Err: errFn})
		stop := run(t, b.messenger)
		synctest.Wait()
		require.ErrorIs(t, b.messenger.Transact(t.Context(), publish("a")), errFn)
		time.Sleep(5 * time.Second)
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		stop()
	})
	test("registers with the brokers of all topics before anything is sent", func(t *testing.T) {
		b := setup(t)
		stop := run(t, b.messenger)
		synctest.Wait()
		require.True(t, b.messenger.link.hasRoute("orders"))
		require.True(t, b.messenger.link.hasRoute("other"))
		require.Empty(t, b.broker.halves)
		stop()
	})
	test("C61 ends with an error that lists missing topics", func(t *testing.T) {
		b := setup(t)
		b.broker.setMissing("other")
		err := b.messenger.Run(t.Context())
		var missing *MissingTopicsError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, []string{"other"}, missing.Topics)
		require.ErrorIs(t, err, txmsg.ErrNoRoute)
	})
	test("C61 waits for missing topics when told to", func(t *testing.T) {
		b := setup(t, func(c *Config) { c.AllowMissing = true })
		b.broker.setMissing("orders")
		stop := run(t, b.messenger)
		synctest.Wait()
		require.ErrorIs(t, b.messenger.Transact(t.Context(), publish("a")), txmsg.ErrNoRoute)
		b.broker.setMissing()
		time.Sleep(15 * time.Second)
		require.NoError(t, b.messenger.Transact(t.Context(), publish("a")))
		stop()
	})
	test("is an error the second time", func(t *testing.T) {
		b := setup(t)
		run(t, b.messenger)()
		require.ErrorContains(t, b.messenger.Run(t.Context()), "twice")
	})
}

package localtable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// never is a poll interval that no test waits for.
const never = 1000 * time.Hour

// reached is when the broker had id for the first time; it fails when it has not within most.
func (w *world) reached(id string, most time.Duration) time.Time {
	w.t.Helper()
	w.until(most, func() bool { return !w.broker.storedAt(id).IsZero() })
	return w.broker.storedAt(id)
}

func TestCommitOfAnotherProcess(t *testing.T) {
	t.Run("is sent within milliseconds", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{PollInterval: never})
			pass(time.Second)
			require.True(t, p.Health().Listens)
			writer := w.writer()
			require.NoError(t, publish(t.Context(), writer, of("k", "transact")...))
			committed := time.Now()
			require.WithinDuration(t, committed, w.reached("transact", time.Minute), 5*time.Millisecond)

			tx, err := w.memory.Begin(t.Context(), func() func() { return func() {} })
			require.NoError(t, err)
			require.NoError(t, writer.Enqueue(t.Context(), tx.Tx(), of("k", "enqueue")...))
			require.NoError(t, tx.Commit(t.Context()))
			pass(time.Minute)
			require.Equal(t, []string{"transact"}, w.broker.ids(), "nobody was told of it")
			writer.Wake()
			require.WithinDuration(t, time.Now(), w.reached("enqueue", time.Minute), 5*time.Millisecond)
		})
	})

	t.Run("is sent by the relay that has its lane, though the writer's relays too", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			cfg := localtable.Config{PollInterval: never}
			first, second := w.start(cfg), w.start(cfg)
			w.until(time.Minute, func() bool {
				return first.Health().Lanes == localtable.Lanes/2 && second.Health().Lanes == localtable.Lanes/2
			})
			for n := range 20 {
				id := fmt.Sprint(n)
				require.NoError(t, publish(t.Context(), first.messenger, of(id, id)...))
				require.WithinDuration(t, time.Now(), w.reached(id, time.Minute), 5*time.Millisecond)
			}
		})
	})

	t.Run("costs a notification each while they are rare, and few when they are many", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			writer := w.writer()
			commit := func(rate int) (notifications int) {
				before := w.memory.Calls().Notify
				for range rate {
					pass(time.Second / time.Duration(rate))
					writer.Wake()
				}
				pass(time.Second)
				return w.memory.Calls().Notify - before
			}
			require.Equal(t, 200, commit(200))
			require.LessOrEqual(t, commit(10_000), 150)
			require.InDelta(t, 200, commit(200), 10, "it comes back from a rush")
			require.Equal(t, 1, commit(1))
		})
	})

	t.Run("what commits while a notification is on its way is told of too", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{PollInterval: never})
			writer, err := localtable.New(slow{w.memory}, w.broker, localtable.Config{})
			require.NoError(t, err)
			pass(time.Second)
			for n := range 300 {
				require.NoError(t, publish(t.Context(), writer, of(fmt.Sprint(n), fmt.Sprint(n))...))
				pass(300 * time.Microsecond)
			}
			pass(50 * time.Millisecond)
			require.Equal(t, 300, w.broker.distinct())
		})
	})
}

// slow is a database that answers a while after it has told of a commit.
type slow struct{ *storetest.Memory }

func (s slow) Notify(ctx context.Context) error {
	defer time.Sleep(5 * time.Millisecond)
	return s.Memory.Notify(ctx)
}

func TestNotificationsThatNobodyNeeds(t *testing.T) {
	t.Run("a relay that holds every lane tells nobody, until another joins", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{})
			pass(time.Second)
			require.NoError(t, publish(t.Context(), p.messenger, of("k", "a")...))
			pass(time.Second)
			require.Zero(t, w.memory.Calls().Notify)
			w.start(localtable.Config{})
			w.until(time.Minute, func() bool { return p.Health().Lanes < localtable.Lanes })
			require.NoError(t, publish(t.Context(), p.messenger, of("k", "b")...))
			pass(time.Second)
			require.Equal(t, 1, w.memory.Calls().Notify)
		})
	})

	t.Run("a process whose relay has ended tells the others", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			first := w.start(localtable.Config{PollInterval: never})
			pass(time.Second)
			first.end(t)
			w.start(localtable.Config{PollInterval: never})
			pass(time.Second)
			require.NoError(t, publish(t.Context(), first.messenger, of("k", "a")...))
			require.WithinDuration(t, time.Now(), w.reached("a", time.Minute), 5*time.Millisecond)
		})
	})

	t.Run("nothing is sent when nothing was committed", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{})
			w.start(localtable.Config{})
			writer := w.writer()
			require.NoError(t, publish(t.Context(), writer))
			require.Error(t, writer.Transact(t.Context(), func(ctx context.Context, _ *storetest.Tx, out txmsg.Publisher) error {
				require.NoError(t, out.Publish(ctx, of("k", "a")...))
				return errors.New("stop")
			}))
			pass(time.Hour)
			require.Zero(t, w.memory.Calls().Notify)
		})
	})
}

// limited is a database whose notifications fail, or that has none.
type limited struct {
	*storetest.Memory
	err            error
	asked, refused atomic.Int64
}

func (l *limited) Notify(context.Context) error {
	l.asked.Add(1)
	return l.err
}

func (l *limited) Listen(context.Context, func()) error {
	l.refused.Add(1)
	return l.err
}

// startOn runs a relay on a database of its own.
func (w *world) startOn(store localtable.Store[*storetest.Tx], cfg localtable.Config) *process {
	w.t.Helper()
	conn := &connection{broker: w.broker, gate: &gate{}}
	cfg.Logger = slog.New(w.log)
	m, err := localtable.New(store, conn, cfg)
	require.NoError(w.t, err)
	return w.run(m, conn.gate, conn)
}

func TestListening(t *testing.T) {
	const lost, deaf, again = "not heard for now", "only polling finds them", "heard again"

	t.Run("C29 what is committed while nobody listens is found when it listens again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{PollInterval: never})
			pass(time.Minute)
			w.memory.Cut()
			pass(time.Millisecond)
			require.False(t, p.Health().Listens)
			w.write(of("k", "gap")...)
			require.WithinDuration(t, time.Now(), w.reached("gap", time.Minute), time.Second)
			w.write(of("k", "after")...)
			require.WithinDuration(t, time.Now(), w.reached("after", time.Minute), 5*time.Millisecond)
			require.Equal(t, 1, w.log.with(lost))
			require.Equal(t, 1, w.log.with(again))
		})
	})

	t.Run("C29 it is calm while the database is down for 20 s", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{})
			pass(time.Minute)
			before := w.memory.Calls().Listen
			w.memory.SetFaults(faultsDown)
			pass(20 * time.Second)
			require.LessOrEqual(t, w.memory.Calls().Listen-before, 12)
			w.memory.SetFaults(faultsNone)
			w.until(10*time.Second, func() bool { return p.Health().Listens })
			require.Equal(t, 1, w.log.with(lost))
			require.Equal(t, 1, w.log.with(again))
		})
	})

	t.Run("C29 a connection that breaks again and again is not tried again at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{})
			pass(time.Minute)
			before := w.memory.Calls().Listen
			for range 20_000 {
				w.memory.Cut()
				pass(time.Millisecond)
			}
			require.LessOrEqual(t, w.memory.Calls().Listen-before, 12)
		})
	})

	t.Run("C30 where notifications do not arrive it polls, with one warning, and tries again in a while", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.memory.SetFaults(storetest.Faults{Deaf: true})
			p := w.start(localtable.Config{})
			pass(time.Second)
			require.False(t, p.Health().Listens)
			w.write(of("k", "polled")...)
			require.WithinDuration(t, time.Now(), w.reached("polled", time.Minute), time.Second+10*time.Millisecond)
			pass(time.Hour)
			require.Equal(t, 1, w.log.with("WARN"))
			require.Equal(t, 1, w.log.with("WARN", deaf))
			require.InDelta(t, 11, w.memory.Calls().Listen, 2)

			w.memory.SetFaults(faultsNone)
			pass(10 * time.Minute)
			require.True(t, p.Health().Listens)
			require.Equal(t, 1, w.log.with(again))
		})
	})

	t.Run("a database without notifications is asked once, and nothing is said", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			store := &limited{Memory: storetest.NewMemory(1), err: fmt.Errorf("none: %w", txmsg.ErrUnsupported)}
			p := w.startOn(store, localtable.Config{})
			for n := range 10 {
				id := fmt.Sprint(n)
				require.NoError(t, publish(t.Context(), p.messenger, of("k", id)...))
				pass(time.Minute)
			}
			require.Equal(t, 10, w.broker.distinct())
			require.EqualValues(t, 1, store.asked.Load())
			require.EqualValues(t, 1, store.refused.Load())
			require.Zero(t, w.log.with("WARN"))
		})
	})

	t.Run("a notification that fails holds up no transaction, and is told once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			store := &limited{Memory: storetest.NewMemory(1), err: errors.New("too many connections")}
			m, err := localtable.New(store, w.broker, localtable.Config{Logger: slog.New(w.log)})
			require.NoError(t, err)
			before := time.Now()
			for range 1000 {
				require.NoError(t, publish(t.Context(), m, of("k", "")...))
			}
			require.Zero(t, time.Since(before))
			for range 600 {
				pass(100 * time.Millisecond)
				m.Wake()
			}
			pass(10 * time.Second)
			require.LessOrEqual(t, store.asked.Load(), int64(25))
			require.Equal(t, 1, w.log.with("WARN", "notify"))
		})
	})
}

package localtable_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestRelay(t *testing.T) {
	t.Run("C18 a transaction that commits after a later one is sent too", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{})
			tx, err := w.memory.Begin(t.Context(), func() func() { return func() {} })
			require.NoError(t, err)
			require.NoError(t, w.writer().Enqueue(t.Context(), tx.Tx(), of("k1", "early")...))
			w.write(of("k2", "late")...)
			w.until(5*time.Second, func() bool { return w.broker.tried("late") == 1 })
			require.NoError(t, tx.Commit(t.Context()))
			w.until(2*time.Second, w.drained)
			require.Equal(t, []string{"late", "early"}, w.broker.ids())
		})
	})

	t.Run("C20 five relays send ten thousand rows once each", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			for i := range 100 {
				w.write(of("", numbered(fmt.Sprint("m", i, "-"), 100)...)...)
			}
			w.broker.set(faults{latency: 3 * time.Millisecond})
			for range 5 {
				w.start(localtable.Config{})
			}
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 10_000)
			require.Equal(t, 10_000, w.broker.distinct())
		})
	})

	t.Run("C23 rows are sent once though the poll comes while the broker works", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: 300 * time.Millisecond})
			p := w.start(localtable.Config{PollInterval: 50 * time.Millisecond})
			for i := range 500 {
				require.NoError(t, publish(t.Context(), p.messenger, of(fmt.Sprint("k", i%7), fmt.Sprint(i))...))
				pass(time.Millisecond)
			}
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 500)
			require.Equal(t, 500, w.broker.distinct())
		})
	})

	t.Run("C26 no transaction is open while the broker works", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			open := 0
			w.broker.onCall = func() { open += w.memory.OpenTransactions() }
			w.start(localtable.Config{})
			w.write(of("k", numbered("m", 50)...)...)
			w.until(time.Minute, w.drained)
			require.Zero(t, open)
		})
	})

	t.Run("a commit of this process is sent at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Second)
			require.NoError(t, publish(t.Context(), p.messenger, of("k", "a")...))
			pass(time.Microsecond)
			require.Equal(t, []string{"a"}, w.broker.ids())
		})
	})

	t.Run("a delayed message is sent when its time has come, whatever its key does", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"stuck": -1}})
			w.start(localtable.Config{})
			later := of("k", "later")[0]
			later.Delay = 10 * time.Second
			w.write(later, of("k", "stuck")[0])
			pass(9 * time.Second)
			require.Empty(t, w.broker.ids())
			pass(2 * time.Second)
			require.Equal(t, []string{"later"}, w.broker.ids())
		})
	})

	t.Run("what is written is what the broker gets", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{})
			want := txmsg.Message{ID: "m", Topic: "orders", Key: "k", Type: "order.created", Sequence: 7, Body: []byte("\x00{}"), Headers: map[string]string{"A": "b"}}
			w.write(want)
			w.until(time.Minute, w.drained)
			require.True(t, want.Equal(w.broker.stored[0]))
		})
	})

	t.Run("retention decides whether delivered rows are kept, and they are pruned by default", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{PollInterval: time.Minute, LeaseTTL: 10 * time.Minute}).awaitSent(w, "a")
			require.Equal(t, 1, w.memory.Kept())
			pass(24*time.Hour + 3*time.Minute)
			require.Zero(t, w.memory.Kept())
			w.relays[0].end(t)

			w.start(localtable.Config{Retention: new(time.Duration(0))}).awaitSent(w, "b")
			require.Zero(t, w.memory.Kept())
		})
	})

	t.Run("an idle relay asks the database at most twice a second, one without lanes too", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			asked := func() int {
				calls := w.memory.Calls()
				return calls.Lease + calls.Read + calls.Settle + calls.Sweep + calls.Prune + calls.Status
			}
			w.memory = storetest.NewMemory(1)
			w.start(localtable.Config{})
			pass(time.Minute)
			before := asked()
			pass(time.Minute)
			require.LessOrEqual(t, asked()-before, 120)

			w.start(localtable.Config{})
			pass(time.Minute)
			before = asked()
			pass(time.Minute)
			require.LessOrEqual(t, asked()-before, 240)
		})
	})

	t.Run("under load batches grow, and without it a commit waits for nothing", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: 2 * time.Millisecond})
			p := w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Second)
			before := w.memory.Calls().Read
			for i := range 10_000 {
				require.NoError(t, publish(t.Context(), p.messenger, of("", fmt.Sprint(i))...))
				pass(100 * time.Microsecond)
			}
			require.Less(t, w.memory.Calls().Read-before, 40, "looks in a second")
			w.until(55*time.Millisecond, w.drained)

			pass(50 * time.Millisecond)
			for i := range 20 {
				require.NoError(t, publish(t.Context(), p.messenger, of("", fmt.Sprint("lone", i))...))
				w.until(2500*time.Microsecond, w.drained)
				pass(time.Millisecond)
			}
		})
	})

	t.Run("a full batch is followed at once by the next", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			const latency = time.Millisecond
			w.broker.set(faults{latency: latency})
			w.write(of("", numbered("m", 5000)...)...)
			w.start(localtable.Config{BatchSize: 100, PollInterval: time.Hour})
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 5000)
			calls := w.broker.seenCalls()
			for i, call := range calls[1:] {
				require.LessOrEqual(t, call.at.Sub(calls[i].at), latency, "call %d of %d", i+1, len(calls))
			}
		})
	})

	t.Run("a row that comes while its lane is busy is sent when it is free, whatever becomes of other batches", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			const latency = 400 * time.Millisecond
			w.broker.set(faults{latency: latency, hang: map[string]time.Duration{"bad": latency}})
			p := w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Second)
			write := func(topic, key string) {
				require.NoError(t, publish(t.Context(), p.messenger, txmsg.Message{Topic: topic, Key: key}))
				pass(latency / 10)
			}
			write("bad", "b")
			write("good", "g")
			write("good", "g")
			w.until(time.Minute, func() bool { return w.broker.distinct() == 2 })
		})
	})

	t.Run("batches of a backlog go beside each other", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: 100 * time.Millisecond})
			for i := range 100 {
				w.write(of("", numbered(fmt.Sprint("m", i, "-"), 100)...)...)
			}
			start := time.Now()
			w.start(localtable.Config{BatchSize: 100, Concurrency: 4})
			w.until(time.Minute, w.drained)
			require.Less(t, time.Since(start), 5*time.Second, "one after the other they take ten seconds")
			require.Len(t, w.broker.ids(), 10_000)
		})
	})

	t.Run("rows of other destinations are left alone", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{Destination: "elsewhere"})
			w.write(of("k", "a")...)
			pass(time.Minute)
			require.Empty(t, w.broker.ids())
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
		})
	})

	t.Run("large calls: rows of different keys go together", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			var msgs []txmsg.Message
			for i := range 60 {
				msgs = append(msgs, of(fmt.Sprint("k", i), fmt.Sprint(i))...)
			}
			w.write(append(msgs, of("", numbered("plain", 60)...)...)...)
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.seenCalls(), 1)
		})
	})

	t.Run("large bodies make small batches, after the first", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			const body = 1_000_000
			var msgs []txmsg.Message
			for i := range 200 {
				msg := of(fmt.Sprint("k", i), fmt.Sprint(i))[0]
				msg.Body = make([]byte, body)
				msgs = append(msgs, msg)
			}
			w.write(msgs...)
			w.start(localtable.Config{BatchSize: 50, Concurrency: 1})
			w.until(time.Minute, w.drained)
			calls := w.broker.seenCalls()
			require.Len(t, calls[0].ids, 50)
			for _, call := range calls[1:] {
				require.LessOrEqual(t, len(call.ids), 16<<20/body)
			}
		})
	})
}

func (p *process) awaitSent(w *world, id string) {
	w.t.Helper()
	w.write(of("k", id)...)
	w.until(2*time.Minute, w.drained)
	require.Equal(w.t, 1, w.broker.tried(id))
}

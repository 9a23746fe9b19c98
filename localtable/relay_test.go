package localtable_test

import (
	"fmt"
	"slices"
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
			require.Less(t, w.memory.Calls().Read-before, 120, "looks in a second")
			w.until(15*time.Millisecond, w.drained)

			pass(10 * time.Millisecond)
			for i := range 20 {
				require.NoError(t, publish(t.Context(), p.messenger, of("", fmt.Sprint("lone", i))...))
				w.until(2500*time.Microsecond, w.drained)
				pass(time.Millisecond)
			}
		})
	})

	t.Run("a full batch is followed at once by the next", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.write(of("", numbered("m", 1000)...)...)
			start := time.Now()
			w.start(localtable.Config{BatchSize: 10, PollInterval: time.Hour})
			w.until(time.Minute, w.drained)
			require.Less(t, time.Since(start), time.Second)
			require.Len(t, w.broker.ids(), 1000)
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
			for i := range 200 {
				msgs = append(msgs, of(fmt.Sprint("k", i), fmt.Sprint(i))...)
			}
			w.write(append(msgs, of("", numbered("plain", 200)...)...)...)
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.seenCalls(), 1)
		})
	})
}

func (p *process) awaitSent(w *world, id string) {
	w.t.Helper()
	w.write(of("k", id)...)
	w.until(2*time.Minute, w.drained)
	require.Equal(w.t, 1, w.broker.tried(id))
}

func TestOrder(t *testing.T) {
	t.Run("a key's rows keep their order, one call after the other", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Millisecond})
			want := numbered("m", 100)
			w.write(of("k", want...)...)
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
			require.Equal(t, want, w.broker.ids("k"))
		})
	})

	t.Run("C24 a refused message holds back its key and no other", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": 2}})
			w.write(of("k1", "A", "B", "C")...)
			w.write(of("k2", "D")...)
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
			require.Equal(t, []string{"A", "B", "C"}, w.broker.ids("k1"))
			require.True(t, w.broker.storedAt("D").Before(w.broker.storedAt("A")))
			require.Equal(t, 3, w.broker.tried("A"))
		})
	})

	t.Run("C24 messages written while their key is held back wait too", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": 4}})
			p := w.start(localtable.Config{})
			for _, id := range []string{"A", "B", "C", "D", "E"} {
				require.NoError(t, publish(t.Context(), p.messenger, of("k", id)...))
				pass(time.Second)
			}
			require.Equal(t, localtable.Status{Retry: 1, Parked: 4}, w.status())
			w.until(time.Minute, w.drained)
			require.Equal(t, []string{"A", "B", "C", "D", "E"}, w.broker.ids("k"))
		})
	})

	t.Run("what stands behind a refused message in its batch is parked with it", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": -1}})
			w.write(of("k", "A", "B", "C")...)
			w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Millisecond)
			require.Equal(t, localtable.Status{Retry: 1, Parked: 2}, w.status())
			require.Equal(t, 1, w.memory.Calls().Settle)
		})
	})

	t.Run("more followers than one settlement unparks", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"m0": 3}})
			want := numbered("m", 60)
			w.write(of("k", want...)...)
			w.start(localtable.Config{BatchSize: 7})
			w.until(5*time.Minute, w.drained)
			require.Equal(t, want, w.broker.ids("k"))
		})
	})

	t.Run("a dead head holds its key by default", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": -1}})
			w.write(of("k", "A", "B")...)
			w.start(localtable.Config{MaxAttempts: 3})
			pass(10 * time.Minute)
			require.Equal(t, localtable.Status{Dead: 1, Parked: 1}, w.status())
			require.Equal(t, 3, w.broker.tried("A"))
		})
	})

	t.Run("a dead head releases its key if configured", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": -1}})
			w.write(of("k", "A", "B", "C")...)
			w.start(localtable.Config{MaxAttempts: 3, DeadKey: localtable.Release})
			pass(time.Minute)
			require.Equal(t, localtable.Status{Dead: 1}, w.status())
			require.Equal(t, []string{"B", "C"}, w.broker.ids("k"))
		})
	})

	t.Run("a head that is dead at once and releases lets the rest go at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{tooLarge: map[string]bool{"A": true}})
			w.write(of("k", "A", "B")...)
			w.start(localtable.Config{DeadKey: localtable.Release})
			pass(2 * time.Second)
			require.Equal(t, localtable.Status{Dead: 1}, w.status())
			require.Equal(t, []string{"B"}, w.broker.ids("k"))
		})
	})
}

func TestRefused(t *testing.T) {
	t.Run("C25 one unsendable row costs its attempts and nothing else", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"m0": -1}})
			w.write(of("", numbered("m", 1000)...)...)
			w.start(localtable.Config{MaxAttempts: 5})
			w.until(10*time.Second, func() bool { return w.broker.distinct() == 999 })
			pass(10 * time.Minute)
			require.Equal(t, localtable.Status{Dead: 1}, w.status())
			require.Equal(t, 5, w.broker.tried("m0"))
			require.LessOrEqual(t, w.log.with("m0"), 5)
			require.Equal(t, 1, w.log.with("WARN message is dead", "message_id=m0", "attempt=5"))
			require.Len(t, w.memory.Errors("m0"), 5)
		})
	})

	t.Run("the fast schedule doubles from a second to five minutes, a quarter longer at most", func(t *testing.T) {
		gaps(t, localtable.Fast, []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300})
	})

	t.Run("the patient schedule goes from a minute to a day", func(t *testing.T) {
		gaps(t, localtable.Patient, []time.Duration{60, 300, 1500, 7500, 37500, 86400, 86400})
	})

	t.Run("C45 a message that is too large is dead after one attempt, and alone", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{tooLarge: map[string]bool{"large": true}})
			w.write(append(append(of("", numbered("a", 10)...), of("", "large")...), of("", numbered("b", 10)...)...)...)
			w.start(localtable.Config{})
			pass(time.Minute)
			require.Equal(t, localtable.Status{Dead: 1}, w.status())
			require.Equal(t, 20, w.broker.distinct())
			require.Equal(t, 1, w.broker.tried("large"))
		})
	})

	t.Run("C61 rows of a missing topic wait and go within one retry", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{missing: map[string]bool{"orders": true}})
			w.start(localtable.Config{Topics: []string{"orders"}, AllowMissing: true, MaxAttempts: 2})
			w.write(of("k", "A", "B")...)
			pass(time.Hour)
			require.Equal(t, localtable.Status{Retry: 1, Parked: 1}, w.status())
			w.broker.set(faults{})
			pass(5*time.Minute + 5*time.Minute/4 + 2*time.Second)
			require.Equal(t, []string{"A", "B"}, w.broker.ids())
		})
	})

	t.Run("the wait for a route spends no attempt, and its tries become rarer", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{missing: map[string]bool{"orders": true}})
			w.start(localtable.Config{MaxAttempts: 2})
			w.write(of("k", "A")...)
			pass(2 * time.Hour)
			require.Less(t, len(w.broker.seenCalls()), 2*12+10)
			require.Len(t, w.memory.Errors("A"), 10, "the reason can be read")

			w.broker.set(faults{refuse: map[string]int{"A": 1}})
			pass(7 * time.Minute)
			require.Equal(t, []string{"A"}, w.broker.ids(), "one refusal was one too many")
		})
	})

	t.Run("a message without a route is dead at once if configured", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{missing: map[string]bool{"orders": true}})
			w.start(localtable.Config{NoRoute: localtable.Die})
			w.write(of("k", "A")...)
			pass(2 * time.Second)
			require.Equal(t, localtable.Status{Dead: 1}, w.status())
		})
	})
}

// gaps requires the times between the attempts of a message that is refused for ever, in seconds.
func gaps(t *testing.T, schedule localtable.Schedule, want []time.Duration) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		w.broker.set(faults{refuse: map[string]int{"m": -1}})
		w.write(of("", "m")...)
		poll := want[0] * time.Second
		w.start(localtable.Config{Schedule: schedule, MaxAttempts: len(want) + 1, PollInterval: poll, LeaseTTL: 30 * poll})
		var total time.Duration
		for _, gap := range want {
			total += gap * time.Second
		}
		pass(total + total/4 + time.Duration(len(want)+1)*poll)
		calls := w.broker.seenCalls()
		require.Len(t, calls, len(want)+1)
		for i, gap := range want {
			got := calls[i+1].at.Sub(calls[i].at)
			require.GreaterOrEqual(t, got, gap*time.Second)
			require.LessOrEqual(t, got, gap*time.Second*5/4+poll)
		}
		require.Equal(t, localtable.Status{Dead: 1}, w.status())
	})
}

func TestDatabaseFails(t *testing.T) {
	t.Run("rows are sent when it is back, and its failure is logged once a loop", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{})
			w.write(of("k", "before")...)
			w.until(time.Minute, w.drained)
			w.memory.SetFaults(storetest.Faults{Down: true})
			pass(5 * time.Minute)
			require.LessOrEqual(t, w.log.with("database fails"), 5)
			w.memory.SetFaults(storetest.Faults{})
			w.write(of("k", "after")...)
			w.until(20*time.Second, w.drained)
			require.Equal(t, []string{"before", "after"}, w.broker.ids())
		})
	})

	t.Run("a settlement whose reply is lost counts once, and nothing is sent again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"B": 1}})
			w.memory.SetFaults(storetest.Faults{LostSettles: 2})
			w.write(append(of("k1", "A"), of("k2", "B")...)...)
			w.start(localtable.Config{})
			pass(500 * time.Millisecond)
			require.Len(t, w.memory.Errors("B"), 1)
			w.until(time.Minute, w.drained)
			require.Equal(t, []string{"A", "B"}, w.broker.ids())
		})
	})

	t.Run("it fails for a moment between publish and settle: settled later, not sent again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Second})
			w.write(append(of("k", "A"), of("", numbered("m", 20)...)...)...)
			w.start(localtable.Config{})
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) > 0 })
			w.memory.SetFaults(storetest.Faults{Down: true})
			pass(3 * time.Second)
			w.memory.SetFaults(storetest.Faults{})
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 21)
		})
	})

	t.Run("it fails between publish and settle: sent again, never lost", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Second})
			want := numbered("m", 20)
			w.write(of("k", want...)...)
			w.start(localtable.Config{})
			pass(1500 * time.Millisecond)
			w.memory.SetFaults(storetest.Faults{Down: true})
			pass(time.Minute)
			require.Less(t, w.broker.distinct(), 20, "a lane is sent from after its lease has run out")
			w.memory.SetFaults(storetest.Faults{})
			w.until(5*time.Minute, w.drained)
			require.Equal(t, want, w.broker.firsts()["k"])
		})
	})
}

func TestOrderUnderRandomFaults(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { randomFaults(t, w, seed) })
		})
	}
}

// finished requires that every key's first copies came in the order of want.
func finished(t *testing.T, w *world, want map[string][]string) {
	t.Helper()
	got := w.broker.firsts()
	for key, ids := range want {
		if key == "" {
			require.ElementsMatch(t, ids, got[key])
			continue
		}
		require.True(t, slices.Equal(ids, got[key]), "key %s: wrote %v, broker got %v", key, ids, got[key])
	}
}

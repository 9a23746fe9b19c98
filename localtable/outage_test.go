package localtable_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func to(topic string, ids ...string) []txmsg.Message {
	msgs := of("", ids...)
	for i := range msgs {
		msgs[i].Topic = topic
	}
	return msgs
}

func TestOutage(t *testing.T) {
	t.Run("it spends no attempt and changes no row", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{down: true})
			w.start(localtable.Config{MaxAttempts: 1})
			w.write(of("k", "A", "B")...)
			pass(time.Hour)
			require.Equal(t, localtable.Status{Ready: 2}, w.status())
			require.Zero(t, w.memory.Calls().Settle)
			require.Empty(t, w.memory.Errors("A"))
			require.Equal(t, 1, w.log.with("broker does not answer"))
			require.False(t, w.relays[0].Health().Destinations[0].OutageSince.IsZero())
			require.ErrorIs(t, w.relays[0].Health().Destinations[0].BrokerError, txmsg.ErrOutage)

			w.broker.set(faults{})
			w.until(20*time.Second, w.drained)
			require.Equal(t, []string{"A", "B"}, w.broker.ids())
			require.Equal(t, 1, w.log.with("broker answers again"))
			require.True(t, w.relays[0].Health().Destinations[0].OutageSince.IsZero())
			require.NoError(t, w.relays[0].Health().Destinations[0].BrokerError)
		})
	})

	t.Run("C33 nodes probe with a few rows, at most once a second, and ramp up", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			for range 4 {
				w.start(localtable.Config{})
			}
			pass(20 * time.Second)
			w.broker.set(faults{down: true})
			for i := range 50 {
				w.write(of("", numbered(fmt.Sprint("m", i, "-"), 100)...)...)
			}
			pass(2 * time.Minute)
			before := w.broker.seenCalls()
			first := before[0].at
			require.NotEmpty(t, before)
			perSecond := map[int]int{}
			for _, call := range before {
				if after := call.at.Sub(first); after > time.Second { // each node learns by its first poll that it is down
					perSecond[int(after/time.Second)]++
					require.LessOrEqual(t, len(call.ids), 16)
				}
			}
			for second, count := range perSecond {
				require.LessOrEqual(t, count, 4, "second %d", second)
			}
			require.LessOrEqual(t, len(before), 4*3+4*12, "probes do not become rarer")

			w.broker.set(faults{latency: 10 * time.Millisecond})
			w.until(time.Minute, w.drained)
			after := w.broker.seenCalls()[len(before):]
			require.LessOrEqual(t, len(after[0].ids), 16, "no ramp")
			require.LessOrEqual(t, len(after[1].ids), 64, "no ramp")
			require.Len(t, w.broker.ids(), 5000)
		})
	})

	t.Run("C26 a topic that hangs does not stop the others", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{hang: map[string]time.Duration{"stuck": 10 * time.Second}})
			for i := range 50 {
				w.write(append(to("stuck", fmt.Sprint("s", i)), to("fine", fmt.Sprint("f", i))...)...)
			}
			w.start(localtable.Config{MaxAttempts: 1})
			w.start(localtable.Config{MaxAttempts: 1})
			w.until(25*time.Second, func() bool { return w.broker.distinct() == 50 })
			for i := range 50 {
				w.write(to("fine", fmt.Sprint("later", i))...)
				w.until(25*time.Second, func() bool { return !w.broker.storedAt(fmt.Sprint("later", i)).IsZero() })
			}
			status := w.status()
			require.Equal(t, localtable.Status{Ready: 50 - status.Retry, Retry: status.Retry}, status)
			require.Empty(t, w.memory.Errors("s0"))
			w.broker.set(faults{})
			w.until(7*time.Minute, w.drained)
		})
	})

	t.Run("rows of a resting topic do not hide the others for ever", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{hang: map[string]time.Duration{"stuck": time.Second}})
			w.write(to("stuck", numbered("s", 20_000)...)...)
			w.write(to("fine", numbered("f", 100)...)...)
			w.start(localtable.Config{MaxAttempts: 1})
			w.until(10*time.Minute, func() bool { return w.broker.distinct() == 100 })
			for i := range 3 {
				pass(time.Minute)
				id := fmt.Sprint("later", i)
				w.write(to("fine", id)...)
				w.until(10*time.Second, func() bool { return !w.broker.storedAt(id).IsZero() })
			}
			require.Zero(t, w.status().Dead)
			w.broker.set(faults{})
			w.until(7*time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 20_000+103)
		})
	})

	t.Run("keys with rows of a topic that rests and others keep their order, however many rows it has", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{hang: map[string]time.Duration{"stuck": time.Second}})
			w.write(to("fine", "first")...)
			spanning := func(i int, topics ...string) (msgs []txmsg.Message) {
				for place, topic := range topics {
					msg := of(fmt.Sprint("k", i), fmt.Sprintf("k%d-%d", i, place))[0]
					msg.Topic = topic
					msgs = append(msgs, msg)
				}
				return msgs
			}
			for i := range 100 {
				w.write(spanning(i, "fine", "stuck", "fine", "stuck", "fine")...)
			}
			w.write(to("stuck", numbered("s", 2000)...)...)
			for i := 100; i < 200; i++ {
				w.write(spanning(i, "stuck", "fine", "fine")...)
			}
			w.write(of("live", "L1", "L2")...)
			w.start(localtable.Config{BatchSize: 50})
			w.start(localtable.Config{BatchSize: 50})
			w.until(10*time.Minute, func() bool { return w.broker.distinct() == 1+100+2 })
			pass(20 * time.Minute)
			require.Equal(t, 103, w.broker.distinct(), "a later row of a key did not wait")

			w.broker.set(faults{})
			w.until(10*time.Minute, w.drained)
			sent := w.broker.ids()
			for i := range 200 {
				last := -1
				for place := range 3 + 2*((199-i)/100) {
					at := slices.Index(sent, fmt.Sprintf("k%d-%d", i, place))
					require.Greater(t, at, last, "key %d", i)
					last = at
				}
			}
		})
	})

	t.Run("a topic that rests changes no row while the others find place", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{hang: map[string]time.Duration{"stuck": time.Second}})
			w.write(append(to("fine", "first"), to("stuck", numbered("s", 99)...)...)...)
			w.start(localtable.Config{BatchSize: 101})
			pass(time.Hour)
			require.Equal(t, localtable.Status{Ready: 99}, w.status())
			require.Equal(t, 1, w.memory.Calls().Settle)
			w.broker.set(faults{})
			w.until(30*time.Second, w.drained)
		})
	})

	t.Run("a key whose topic rests keeps its order over topics", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := of("k", "A")[0], of("k", "B")[0]
			a.Topic, b.Topic = "stuck", "fine"
			w.broker.set(faults{hang: map[string]time.Duration{"stuck": time.Second}})
			w.write(a, b)
			w.write(to("fine", "other")...)
			w.start(localtable.Config{})
			pass(5 * time.Minute)
			require.Equal(t, []string{"other"}, w.broker.ids())
			w.broker.set(faults{})
			w.until(time.Minute, w.drained)
			require.Equal(t, []string{"other", "A", "B"}, w.broker.ids())
		})
	})

	t.Run("a panic in the broker's client is an outage", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{panics: 3})
			w.start(localtable.Config{MaxAttempts: 1})
			w.write(of("k", "A")...)
			w.until(time.Minute, w.drained)
			require.Equal(t, 3, w.log.with("broker panics"))
			require.Equal(t, []string{"A"}, w.broker.ids())
		})
	})

	t.Run("an error without a class is an outage", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{odd: map[string]error{"A": fmt.Errorf("what is this")}})
			w.start(localtable.Config{MaxAttempts: 1})
			w.write(of("k", "A")...)
			pass(time.Minute)
			require.Equal(t, localtable.Status{Ready: 1}, w.status())
			w.broker.set(faults{})
			w.until(time.Minute, w.drained)
		})
	})
}

func TestTopics(t *testing.T) {
	t.Run("C61 Run ends with an error that lists the missing topics", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{missing: map[string]bool{"t-missing": true, "a-missing": true}})
			m, err := localtable.New(w.memory, w.broker, localtable.Config{Topics: []string{"orders", "t-missing", "a-missing"}})
			require.NoError(t, err)
			err = m.Run(t.Context())
			require.ErrorIs(t, err, txmsg.ErrNoRoute)
			require.ErrorContains(t, err, "a-missing, t-missing")
			require.NotContains(t, err.Error(), "orders")
			require.True(t, w.broker.closed)
			require.ErrorContains(t, m.Run(t.Context()), "twice")
		})
	})

	t.Run("a broker that does not answer is waited for", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{down: true})
			p := w.start(localtable.Config{Topics: []string{"orders"}})
			require.NoError(t, publish(t.Context(), p.messenger, of("k", "A")...))
			pass(10 * time.Minute)
			require.Equal(t, int64(1), p.Health().Status.Ready, "the table is watched meanwhile")
			require.Equal(t, 1, w.log.with("broker does not answer"))
			w.broker.set(faults{})
			w.until(25*time.Second, w.drained)
		})
	})

	t.Run("a relay that waits for its broker stops at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{down: true})
			p := w.start(localtable.Config{Topics: []string{"orders"}})
			pass(time.Minute)
			before := time.Now()
			p.end(t)
			require.Zero(t, time.Since(before))
		})
	})
}

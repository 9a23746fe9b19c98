package localtable_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// sites are two destinations of one table: orders go east, bills and their like go west.
type sites struct {
	*world
	east, west *broker
}

func inSites(t *testing.T, test func(t *testing.T, s *sites)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		s := &sites{world: w, east: newBroker(), west: newBroker()}
		test(t, s)
		for _, p := range w.relays {
			p.end(t)
		}
		require.Empty(t, s.east.violations())
		require.Empty(t, s.west.violations())
	})
}

func routes(east, west localtable.Broker) []localtable.Route {
	return []localtable.Route{
		{Destination: "east", Topics: []string{"orders"}, Broker: east},
		{Destination: "west", Topics: []string{"bills", "bills.*"}, Broker: west},
	}
}

// start runs a relay of both destinations in a new process.
func (s *sites) start(cfg localtable.Config) *process {
	s.t.Helper()
	gate := &gate{}
	east, west := &connection{broker: s.east, gate: gate}, &connection{broker: s.west, gate: gate}
	cfg.Logger = slog.New(s.log)
	m, err := localtable.NewRouted(store{s.memory, gate}, routes(east, west), cfg)
	require.NoError(s.t, err)
	return s.run(m, gate, east, west)
}

// write commits one transaction with msgs.
func (s *sites) write(msgs ...txmsg.Message) {
	s.t.Helper()
	require.NoError(s.t, publish(s.t.Context(), s.writer(), msgs...))
}

// writer is a messenger that does not relay.
func (s *sites) writer() *messenger {
	m, err := localtable.NewRouted(s.memory, routes(s.east, s.west), localtable.Config{})
	require.NoError(s.t, err)
	return m
}

// bills are messages of the other destination.
func bills(key string, ids ...string) []txmsg.Message {
	msgs := of(key, ids...)
	for i := range msgs {
		msgs[i].Topic = "bills"
	}
	return msgs
}

func TestRoutes(t *testing.T) {
	t.Run("the first route that takes a topic gets it, and its broker checks it", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.start(localtable.Config{})
			msgs := append(of("k", "o1", "o2"), bills("k", "b1")...)
			late := bills("k", "b2")[0]
			late.Topic = "bills.late"
			s.write(append(msgs, late)...)
			s.until(10*time.Second, s.drained)
			require.Equal(t, []string{"o1", "o2"}, s.east.ids())
			require.Equal(t, []string{"b1", "b2"}, s.west.ids())

			m, err := localtable.NewRouted(s.memory, []localtable.Route{
				{Destination: "large", Topics: []string{"orders.large"}, Broker: s.east},
				{Destination: "small", Topics: []string{"*"}, Broker: strict{s.west}},
			}, localtable.Config{})
			require.NoError(t, err)
			msg := of("", "x")[0]
			require.ErrorIs(t, publish(t.Context(), m, msg), txmsg.ErrTooLarge)
			msg.Topic = "orders.large"
			require.NoError(t, publish(t.Context(), m, msg))
			status, err := s.memory.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"large"}, status.Destinations)
		})
	})

	t.Run("a topic that no route takes is refused by name, and nothing is written", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			p := s.start(localtable.Config{})
			msg := of("k", "m")[0]
			msg.Topic = "billing"
			refused := func(err error) {
				t.Helper()
				var invalid *txmsg.InvalidMessageError
				require.ErrorAs(t, err, &invalid)
				require.Equal(t, "Topic", invalid.Field)
				require.ErrorIs(t, err, txmsg.ErrNoRoute)
				require.ErrorContains(t, err, `must be one that a route takes: east (orders), west (bills, bills.*), got "billing"`)
			}
			refused(publish(t.Context(), p.messenger, msg))
			tx, err := s.memory.Begin(t.Context(), func() func() { return func() {} })
			require.NoError(t, err)
			refused(p.Enqueue(t.Context(), tx.Tx(), of("k", "good")[0], msg))
			require.NoError(t, tx.Commit(t.Context()))
			require.True(t, s.drained())
		})
	})

	t.Run("a commit wakes the destinations that it wrote to", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			p := s.start(localtable.Config{PollInterval: time.Hour, LeaseTTL: 3 * time.Hour})
			pass(time.Second)
			before := s.memory.Calls().Read
			require.NoError(t, publish(t.Context(), p.messenger, append(of("k", "a"), of("k", "b")...)...))
			pass(time.Millisecond)
			require.Equal(t, []string{"a", "b"}, s.east.ids())
			require.Equal(t, before+1, s.memory.Calls().Read)
			p.Wake()
			pass(time.Millisecond)
			require.Equal(t, before+3, s.memory.Calls().Read)
		})
	})

	t.Run("rows of a destination that no route has are told of, once", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			p := s.start(localtable.Config{})
			s.world.write(of("k", "stray")...) // to "default"
			s.write(of("k", "fine")...)
			pass(time.Minute)
			require.Equal(t, []string{"default"}, p.Health().Unrouted)
			require.Equal(t, 1, s.log.with("WARN rows of a destination that no route here has", "destination=default"))
			require.Equal(t, []string{"fine"}, s.east.ids())
			p.end(t)
			s.world.start(localtable.Config{})
			s.until(10*time.Second, s.drained)
			require.Equal(t, []string{"stray"}, s.broker.ids())
		})
	})
}

// strict is a broker that takes nothing.
type strict struct{ *broker }

func (strict) Check(m txmsg.Message) error { return txmsg.CheckSize(m, 0) }

func TestRoutesAreApart(t *testing.T) {
	// drain returns how long it takes to send 4000 orders while the other broker has these faults.
	drain := func(t *testing.T, f faults) (took time.Duration) {
		inSites(t, func(t *testing.T, s *sites) {
			s.east.set(faults{latency: 5 * time.Millisecond})
			s.west.set(f)
			for i := range 40 {
				s.write(of(fmt.Sprint("k", i), numbered(fmt.Sprint("o", i, "-"), 100)...)...)
				s.write(bills(fmt.Sprint("k", i), numbered(fmt.Sprint("b", i, "-"), 100)...)...)
			}
			start := time.Now()
			s.start(localtable.Config{})
			s.until(time.Hour, func() bool { return s.east.distinct() == 4000 })
			took = time.Since(start)
			s.west.set(faults{})
			s.until(10*time.Minute, s.drained)
			for i := range 40 {
				require.Equal(t, numbered(fmt.Sprint("o", i, "-"), 100), s.east.firsts()[fmt.Sprint("k", i)])
				require.Equal(t, numbered(fmt.Sprint("b", i, "-"), 100), s.west.firsts()[fmt.Sprint("k", i)])
			}
		})
		return took
	}
	t.Run("a broker that hangs, or is down, costs the other destination no time", func(t *testing.T) {
		alone := drain(t, faults{latency: 5 * time.Millisecond})
		require.InDelta(t, alone, drain(t, faults{hang: map[string]time.Duration{"bills": 30 * time.Second}}), float64(alone/10))
		require.InDelta(t, alone, drain(t, faults{down: true}), float64(alone/10))
	})

	t.Run("each destination has its own breaker", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			p := s.start(localtable.Config{})
			s.west.set(faults{down: true})
			s.write(append(of("k", "o1"), bills("k", "b1")...)...)
			pass(time.Minute)
			health := p.Health().Destinations
			require.Len(t, health, 2)
			require.Equal(t, localtable.DestinationHealth{Destination: "east"}, health[0])
			require.Equal(t, "west", health[1].Destination)
			require.False(t, health[1].OutageSince.IsZero())
			require.ErrorIs(t, health[1].BrokerError, txmsg.ErrOutage)
			require.Equal(t, 1, s.log.with("broker does not answer", "destination=west"))
			require.Less(t, len(s.west.seenCalls()), 15)

			s.west.set(faults{})
			s.east.set(faults{hang: map[string]time.Duration{"orders": time.Second}})
			s.write(append(of("k", "o2"), bills("k", "b2")...)...)
			s.until(20*time.Second, func() bool { return slices.Equal([]string{"b1", "b2"}, s.west.ids()) })
			pass(time.Minute)
			health = p.Health().Destinations
			require.False(t, health[0].OutageSince.IsZero())
			require.Equal(t, localtable.DestinationHealth{Destination: "west"}, health[1])
		})
	})

	t.Run("a key is held back in its own destination alone", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.west.set(faults{refuse: map[string]int{"b1": 3}})
			for i := 1; i <= 5; i++ {
				s.write(append(bills("k", fmt.Sprint("b", i)), of("k", fmt.Sprint("o", i))...)...)
			}
			s.start(localtable.Config{})
			s.until(time.Second, func() bool { return s.east.distinct() == 5 })
			require.Empty(t, s.west.ids())
			require.Equal(t, localtable.Status{Retry: 1, Parked: 4}, s.status())
			s.until(time.Minute, s.drained)
			require.Equal(t, []string{"o1", "o2", "o3", "o4", "o5"}, s.east.ids())
			require.Equal(t, []string{"b1", "b2", "b3", "b4", "b5"}, s.west.ids())
		})
	})

	t.Run("concurrency is each destination's own", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			conn := func(b *broker) *connection { return &connection{broker: b, gate: &gate{}} }
			east, west := conn(s.east), conn(s.west)
			list := routes(east, west)
			list[0].Concurrency = 1
			m, err := localtable.NewRouted(store{s.memory, &gate{}}, list, localtable.Config{BatchSize: 10, Concurrency: 4})
			require.NoError(t, err)
			var most [2]int
			for i, b := range []*broker{s.east, s.west} {
				b.set(faults{latency: time.Second})
				b.onCall = func() { most[i] = max(most[i], b.under) }
			}
			s.write(of("", numbered("o", 200)...)...)
			s.write(bills("", numbered("b", 200)...)...)
			s.run(m, &gate{}, east, west)
			s.until(10*time.Minute, s.drained)
			require.Equal(t, [2]int{1, 4}, most)
		})
	})
}

func TestRoutesShareLanes(t *testing.T) {
	t.Run("a lane changes hands when the last destination is done with it, and the others go on until then", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.write(bills("", numbered("before", 1000)...)...)
			first := s.start(localtable.Config{})
			s.until(time.Minute, s.drained) // batches are as large as may be from now on
			calls := len(s.west.seenCalls())
			s.west.set(faults{latency: 20 * time.Second})
			s.write(bills("", numbered("b", 500)...)...)
			first.Wake()
			s.until(time.Minute, func() bool { return len(s.west.seenCalls()) == calls+1 }) // with every lane
			pass(time.Second)
			s.start(localtable.Config{})
			for i := range 100 {
				id := fmt.Sprint("o", i)
				require.NoError(t, publish(t.Context(), first.messenger, of(id, id)...))
				pass(100 * time.Millisecond)
				require.False(t, s.east.storedAt(id).IsZero(), "order %d waits for a bill", i)
			}
			require.Equal(t, []int{64}, s.shares())
			s.until(15*time.Second, func() bool { return slices.Equal([]int{32, 32}, s.shares()) })
			s.west.set(faults{})
			s.until(time.Minute, s.drained)
			require.Len(t, s.west.ids(), 1500, "a lane changed hands with a batch under way")
		})
	})

	t.Run("a destination under load does not keep a lane from leaving", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.east.set(faults{latency: 300 * time.Millisecond})
			s.west.set(faults{latency: time.Second})
			for i := range 3000 {
				s.write(append(of(fmt.Sprint("k", i%200), fmt.Sprint("o", i)), bills(fmt.Sprint("k", i%200), fmt.Sprint("b", i))...)...)
			}
			s.start(localtable.Config{BatchSize: 6, Concurrency: 64})
			pass(time.Second)
			s.start(localtable.Config{BatchSize: 6, Concurrency: 64})
			pass(12 * time.Second)
			require.False(t, s.drained(), "the load ended too early to show anything")
			require.Equal(t, []int{32, 32}, s.shares())
			s.until(10*time.Minute, s.drained)
			require.Len(t, s.east.ids(), 3000)
			require.Len(t, s.west.ids(), 3000)
		})
	})
}

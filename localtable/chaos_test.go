package localtable_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

// randomFaults writes to a few keys while relays stop and go, the broker and the database fail, and messages are refused.
// When all is well again, everything is delivered, each key's first copies in the order of writing.
func randomFaults(t *testing.T, w *world, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	cfg := localtable.Config{LeaseTTL: 3 * time.Second, BatchSize: 1 + random.IntN(20), MaxAttempts: 1000}
	for range 3 {
		w.start(cfg)
	}
	want := map[string][]string{}
	for round := range 60 {
		for range random.IntN(8) {
			key := []string{"", "a", "b", "c", "d", "e"}[random.IntN(6)]
			ids := numbered(fmt.Sprintf("%s%d-%d-", key, round, len(want[key])), 1+random.IntN(3))
			msgs := of(key, ids...)
			for i := range msgs {
				msgs[i].Topic = []string{"orders", "bills"}[random.IntN(2)]
			}
			if err := publish(t.Context(), w.writer(), msgs...); err == nil {
				want[key] = append(want[key], ids...)
			}
		}
		w.disturb(random, want)
		pass(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	w.broker.set(faults{})
	w.memory.SetFaults(storetest.Faults{})
	for _, p := range w.relays {
		p.gate.open()
	}
	w.until(10*time.Minute, w.drained)
	finished(t, w, want)
	require.Empty(t, w.broker.violations())
}

// disturb changes what is wrong.
func (w *world) disturb(random *rand.Rand, written map[string][]string) {
	f := faults{latency: time.Duration(random.IntN(50)) * time.Millisecond, refuse: map[string]int{}}
	switch random.IntN(6) {
	case 0:
		f.down = true
	case 1:
		f.hang = map[string]time.Duration{"orders": 4 * time.Second}
	case 2:
		f.panics = 1
	}
	for _, ids := range written {
		for _, id := range ids[max(len(ids)-3, 0):] {
			if random.IntN(4) == 0 {
				f.refuse[id] = 1 + random.IntN(3)
			}
		}
	}
	w.broker.set(f)
	w.memory.SetFaults(storetest.Faults{Down: random.IntN(8) == 0, LostSettles: random.IntN(3)})
	p := w.relays[random.IntN(len(w.relays))]
	p.gate.open()
	if random.IntN(3) == 0 {
		p.gate.close()
	}
}

func TestOrderOfRoutesUnderRandomFaults(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inSites(t, func(t *testing.T, s *sites) { randomFaultsOfSites(t, s, seed) })
		})
	}
}

// randomFaultsOfSites is randomFaults with two destinations that share keys, and of which now one and now the other has faults.
func randomFaultsOfSites(t *testing.T, s *sites, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 11))
	cfg := localtable.Config{LeaseTTL: 3 * time.Second, BatchSize: 1 + random.IntN(20), MaxAttempts: 1000}
	for range 3 {
		s.start(cfg)
	}
	topics := map[string]*broker{"orders": s.east, "bills": s.west}
	want := map[*broker]map[string][]string{s.east: {}, s.west: {}}
	for round := range 60 {
		for _, topic := range []string{"orders", "bills"} {
			broker := topics[topic]
			for range random.IntN(5) {
				key := []string{"", "a", "b", "c", "d", "e"}[random.IntN(6)]
				ids := numbered(fmt.Sprintf("%s-%s%d-%d-", topic, key, round, len(want[broker][key])), 1+random.IntN(3))
				msgs := of(key, ids...)
				for i := range msgs {
					msgs[i].Topic = topic
				}
				if err := publish(t.Context(), s.writer(), msgs...); err == nil {
					want[broker][key] = append(want[broker][key], ids...)
				}
			}
		}
		s.broker = []*broker{s.east, s.west}[random.IntN(2)]
		s.disturb(random, want[s.broker])
		pass(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	s.memory.SetFaults(storetest.Faults{})
	for _, p := range s.relays {
		p.gate.open()
	}
	for broker := range want {
		broker.set(faults{})
	}
	s.until(10*time.Minute, s.drained)
	for broker, written := range want {
		s.broker = broker
		finished(t, s.world, written)
	}
}

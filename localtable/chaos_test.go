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

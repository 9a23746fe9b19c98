package localtable_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

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
			w.until(15*time.Second, w.drained) // after the head's third retry, and no more
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

package localtable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

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

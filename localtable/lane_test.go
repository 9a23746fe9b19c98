package localtable_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

// shares counts the lanes of each owner, "" for none, smallest first.
func (w *world) shares() []int {
	counts := map[string]int{}
	for _, owner := range w.memory.Owners() {
		counts[owner]++
	}
	var shares []int
	for _, count := range counts {
		shares = append(shares, count)
	}
	slices.Sort(shares)
	return shares
}

func TestLanes(t *testing.T) {
	t.Run("relays share the lanes within seconds, whoever comes and goes", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(localtable.Config{})
			pass(time.Second)
			require.Equal(t, []int{64}, w.shares())
			w.start(localtable.Config{})
			pass(8 * time.Second)
			require.Equal(t, []int{32, 32}, w.shares())
			w.start(localtable.Config{})
			w.start(localtable.Config{})
			pass(8 * time.Second)
			require.Equal(t, []int{16, 16, 16, 16}, w.shares())
			w.relays[0].end(t)
			w.relays[1].end(t)
			pass(4 * time.Second)
			require.Equal(t, []int{32, 32}, w.shares())
		})
	})

	t.Run("a relay under load gives its surplus away", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Second})
			for i := range 3000 {
				w.write(of(fmt.Sprint("k", i%200), fmt.Sprint(i))...)
			}
			w.start(localtable.Config{BatchSize: 6, Concurrency: 64})
			pass(time.Second)
			w.start(localtable.Config{BatchSize: 6, Concurrency: 64})
			pass(10 * time.Second)
			require.False(t, w.drained(), "the load ended too early to show anything")
			require.Equal(t, []int{32, 32}, w.shares())
			w.until(10*time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 3000, "a lane changed hands with a batch under way")
		})
	})

	t.Run("C21 what a relay that died held is sent within lease and poll", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Hour}) // it dies before any answer
			p := w.start(localtable.Config{LeaseTTL: 5 * time.Second})
			w.write(of("", numbered("m", 200)...)...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) > 0 })
			p.gate.close()
			w.broker.set(faults{})
			w.start(localtable.Config{LeaseTTL: 5 * time.Second})
			w.until(6*time.Second+time.Second, func() bool { return w.broker.distinct() == 200 })
			require.True(t, w.drained())
		})
	})

	t.Run("C22 a relay that was paused settles nothing that it lost", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": 1}, latency: time.Second})
			p := w.start(localtable.Config{LeaseTTL: 5 * time.Second})
			w.write(of("k", "A", "B")...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 1 })
			p.gate.close() // during the call that refuses A

			pass(500 * time.Millisecond)
			w.start(localtable.Config{LeaseTTL: 5 * time.Second})
			w.until(10*time.Second, w.drained)
			require.Equal(t, []string{"A", "B"}, w.broker.ids())
			kept := w.memory.Kept()

			p.gate.open()
			pass(time.Minute)
			require.True(t, w.drained())
			require.Equal(t, kept, w.memory.Kept())
			require.Equal(t, []string{"A", "B"}, w.broker.ids())
		})
	})

	t.Run("parked rows that a relay left behind without a head go at the takeover", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			ctx, gone := t.Context(), "gone"
			w.write(of("k", "A", "B", "C")...)
			lease, err := w.memory.Lease(ctx, gone, time.Minute)
			require.NoError(t, err)
			settle := func(fates ...localtable.Fate) {
				rows, err := w.memory.Read(ctx, "default", lease.Lanes, 10)
				require.NoError(t, err)
				settlement := localtable.Settlement{Owner: gone, Lanes: lease.Lanes, Errors: 1}
				for i, fate := range fates {
					settlement.Results = append(settlement.Results, localtable.Result{Row: rows[i], Fate: fate})
				}
				changed, err := w.memory.Settle(ctx, settlement)
				require.NoError(t, err)
				require.Equal(t, len(fates), changed)
			}
			settle(localtable.Retry, localtable.Parked, localtable.Parked)
			settle(localtable.Delivered)
			require.Equal(t, localtable.Status{Parked: 2}, w.status())
			require.NoError(t, w.memory.Release(ctx, gone))

			w.start(localtable.Config{})
			w.until(5*time.Second, w.drained)
			require.Equal(t, []string{"B", "C"}, w.broker.ids())
		})
	})

	t.Run("a paused relay that wakes does not send what it lost", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Second})
			p := w.start(localtable.Config{LeaseTTL: 5 * time.Second})
			w.write(of("k", "A", "B", "C")...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 1 })
			p.gate.close()
			w.start(localtable.Config{LeaseTTL: 5 * time.Second})
			w.until(20*time.Second, w.drained)
			p.gate.open()
			pass(time.Minute)
			require.Equal(t, 1, w.broker.tried("B"))
			require.Equal(t, 1, w.broker.tried("C"))
		})
	})
}

func TestShutdown(t *testing.T) {
	t.Run("what the broker accepts during it is settled, and lanes change hands at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: 3 * time.Second})
			w.write(of("k", numbered("m", 20)...)...)
			p := w.start(localtable.Config{PollInterval: time.Hour})
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 2 })
			pass(time.Second)
			before := time.Now()
			p.end(t)
			require.InDelta(t, 2, time.Since(before).Seconds(), 0.01, "it waits for the call under way and no longer")
			require.Equal(t, localtable.Status{Ready: 18}, w.status())
			require.Equal(t, []int{64}, w.shares())
			require.Equal(t, "", w.memory.Owners()[0])

			w.broker.set(faults{})
			before = time.Now()
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
			require.Less(t, time.Since(before), time.Second)
			require.Equal(t, numbered("m", 20), w.broker.ids())
		})
	})

	t.Run("lanes are kept while their last batch drains", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: 8 * time.Second})
			p := w.start(localtable.Config{LeaseTTL: 3 * time.Second})
			w.write(of("", numbered("m", 20)...)...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 1 })
			w.start(localtable.Config{LeaseTTL: 3 * time.Second})
			p.end(t)
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 20, "sent again by the other relay")
		})
	})

	t.Run("C63 rows are sent or unsent, none twice and none lost, and the broker is closed last", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: 100 * time.Millisecond})
			p := w.start(localtable.Config{BatchSize: 5})
			for i := range 50 {
				go func() {
					time.Sleep(2 * time.Second)
					require.NoError(t, publish(t.Context(), p.messenger, of("", fmt.Sprint(i))...))
				}()
			}
			pass(2*time.Second + 150*time.Millisecond)
			p.end(t)
			pass(time.Second)
			sent := w.broker.distinct()
			require.NotZero(t, sent)
			require.Equal(t, localtable.Status{Ready: int64(50 - sent)}, w.status())
			require.Zero(t, w.log.with("closed"))
			w.start(localtable.Config{})
			w.until(time.Minute, w.drained)
			require.Len(t, w.broker.ids(), 50)
		})
	})

	t.Run("C64 it ends by its deadline although the broker does not answer", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{latency: time.Hour})
			p := w.start(localtable.Config{DrainTimeout: 3 * time.Second})
			w.write(of("k", "A")...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 1 })
			before := time.Now()
			p.end(t)
			require.Equal(t, 3*time.Second, time.Since(before))
			require.Equal(t, localtable.Status{Ready: 1}, w.status())
			require.Equal(t, 1, w.log.with("drain timeout is over"))
		})
	})

	t.Run("it ends by its deadline although the database does not answer", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{DrainTimeout: 3 * time.Second})
			w.broker.set(faults{latency: time.Second})
			w.write(of("k", "A")...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 1 })
			w.memory.SetFaults(faultsDown)
			pass(2 * time.Second)
			before := time.Now()
			p.end(t)
			require.LessOrEqual(t, time.Since(before), 8*time.Second)
			require.Equal(t, 1, w.log.with("batch not settled"))
			require.Equal(t, 1, w.log.with("lanes not released"))
			w.memory.SetFaults(faultsNone)
		})
	})
}

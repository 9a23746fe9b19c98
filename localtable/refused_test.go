package localtable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

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

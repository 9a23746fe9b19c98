package localtable_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

// stuckBehind writes messages of the key k to a broker that refuses the first for good, and waits until it is dead and the
// others are parked.
func (w *world) stuckBehind(ids ...string) {
	w.t.Helper()
	w.broker.set(faults{tooLarge: map[string]bool{ids[0]: true}})
	w.start(localtable.Config{})
	w.write(of("k", ids...)...)
	w.write(of("free", "free")...)
	w.until(time.Minute, func() bool {
		return w.has(localtable.Status{Dead: 1, Parked: int64(len(ids) - 1)})
	})
	require.Equal(w.t, []string{"free"}, w.broker.ids())
}

func (w *world) has(status localtable.Status) bool { return reflect.DeepEqual(w.status(), status) }

// deadRefs are the rows that a person sees as dead.
func (w *world) deadRefs() (refs []localtable.Ref) {
	w.t.Helper()
	rows, err := operate(w.t, w.memory).Find(w.t.Context(), localtable.Filter{States: []localtable.State{localtable.StateDead}}, 0, 1000)
	require.NoError(w.t, err)
	for _, row := range rows {
		refs = append(refs, row.Ref())
	}
	return refs
}

func TestPerson(t *testing.T) {
	many := append([]string{"head"}, numbered("m", 1200)...)

	t.Run("retry: the head is sent first, then what waited, in order", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.stuckBehind(many...)
			w.broker.set(faults{})
			report, err := operate(t, w.memory).Retry(t.Context(), because, localtable.Filter{Key: "k"}, localtable.RetryOptions{})
			require.NoError(t, err)
			require.Equal(t, 1, report.Retried)
			w.until(2*time.Minute, w.drained)
			require.Equal(t, many, w.broker.ids("k"))
		})
	})

	t.Run("retry: one that is refused again is dead again, and its key waits on", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.stuckBehind("head", "b")
			_, err := operate(t, w.memory).Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
			require.NoError(t, err)
			w.until(10*time.Second, func() bool { return w.broker.tried("head") == 2 })
			pass(time.Minute)
			require.Equal(t, localtable.Status{Dead: 1, Parked: 1}, w.status())
			require.Empty(t, w.broker.ids("k"))
		})
	})

	t.Run("retry: a message has all its attempts again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"a": 5}})
			w.start(localtable.Config{MaxAttempts: 3})
			w.write(of("k", "a")...)
			w.until(time.Minute, func() bool { return w.has(localtable.Status{Dead: 1}) })
			require.Equal(t, 3, w.broker.tried("a"))
			_, err := operate(t, w.memory).Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
			require.NoError(t, err)
			w.until(time.Minute, w.drained)
			require.Equal(t, 6, w.broker.tried("a"))
		})
	})

	t.Run("skip: what waited is sent in order, the skipped one never", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.stuckBehind(many...)
			w.broker.set(faults{})
			require.NoError(t, operate(t, w.memory).Skip(t.Context(), because, w.deadRefs()...))
			w.until(2*time.Minute, w.drained)
			require.Equal(t, many[1:], w.broker.ids("k"))
			pass(time.Hour)
			require.Equal(t, 1, w.broker.tried("head"))
		})
	})

	t.Run("release: what waited is sent in order, and the dead one when a person retries it", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.stuckBehind(many...)
			w.broker.set(faults{})
			operator := operate(t, w.memory)
			require.NoError(t, operator.Release(t.Context(), because, w.deadRefs()...))
			w.until(2*time.Minute, func() bool { return w.has(localtable.Status{Dead: 1}) })
			require.Equal(t, many[1:], w.broker.ids("k"))
			_, err := operator.Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
			require.NoError(t, err)
			w.until(time.Minute, w.drained)
			require.Equal(t, append(slices.Clone(many[1:]), "head"), w.broker.ids("k"))
		})
	})

	t.Run("what a person did is told to the relays", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.stuckBehind("head", "b")
			w.broker.set(faults{})
			require.NoError(t, operate(t, w.memory).Skip(t.Context(), because, w.deadRefs()...))
			pass(50 * time.Millisecond)
			require.Equal(t, []string{"b"}, w.broker.ids("k"))
		})
	})

	// The relay has sent the message and is paused before it settles; a person retries what is still in retry.
	t.Run("C22 a paused relay's settlement changes nothing that a person has decided since", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"a": 1}})
			p := w.start(localtable.Config{})
			w.write(of("k", "a", "b")...)
			w.until(time.Minute, func() bool { return w.broker.tried("a") == 1 })
			w.broker.onCall = p.gate.close
			w.until(time.Minute, func() bool { return w.broker.tried("a") == 2 })
			w.broker.onCall = nil
			report, err := operate(t, w.memory).Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
			require.NoError(t, err)
			require.Equal(t, 1, report.Retried)
			p.gate.open()
			w.until(time.Minute, w.drained)
			require.Equal(t, []string{"a", "a", "b"}, w.broker.ids("k"), "a copy, and still the order")
		})
	})
}

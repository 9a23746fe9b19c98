package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func runPrune[Tx any](t *testing.T, open func(t *testing.T) Harness[Tx]) {
	t.Run("removes old rows, at most limit at a time", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		old, fresh := ids("old", 7), ids("fresh", 3)
		for _, id := range append(old, fresh...) {
			requireMark(t, h, "payments", id, true)
		}
		for _, id := range old {
			h.Age(t, "payments", id, 2*time.Hour)
		}
		for _, want := range []int{3, 3, 1, 0} {
			requirePrune(t, h, time.Hour, 3, want)
		}
		for _, id := range fresh {
			requireMark(t, h, "payments", id, false)
		}
		for _, id := range old {
			requireMark(t, h, "payments", id, true)
		}
	})

	t.Run("keeps what is younger than retention", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		requireMark(t, h, "payments", "younger", true)
		requireMark(t, h, "payments", "older", true)
		h.Age(t, "payments", "younger", 59*time.Minute)
		h.Age(t, "payments", "older", 61*time.Minute)
		requirePrune(t, h, time.Hour, 100, 1)
		requireMark(t, h, "payments", "younger", false)
		requireMark(t, h, "payments", "older", true)
	})

	t.Run("prunes every consumer's rows", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		for _, name := range []string{"payments", "mail"} {
			requireMark(t, h, name, "1", true)
			h.Age(t, name, "1", 2*time.Hour)
		}
		requirePrune(t, h, time.Hour, 100, 2)
	})

	t.Run("leaves dead letters alone", func(t *testing.T) {
		t.Parallel()
		h, letter := open(t), letters()[0]
		require.NoError(t, h.Store.Bury(h.context(t), letter))
		requireMark(t, h, letter.Consumer, letter.Message.ID, true)
		h.Age(t, letter.Consumer, letter.Message.ID, 2*time.Hour)
		requirePrune(t, h, time.Hour, 100, 1)
		requireLetter(t, h, letter)
	})

	t.Run("of an empty inbox removes nothing", func(t *testing.T) {
		t.Parallel()
		requirePrune(t, open(t), time.Hour, 100, 0)
	})
}

func requirePrune[Tx any](t *testing.T, h Harness[Tx], retention time.Duration, limit, want int) {
	t.Helper()
	pruned, err := h.Store.PruneInbox(h.context(t), retention, limit)
	require.NoError(t, err)
	require.Equal(t, want, pruned)
}

func ids(prefix string, count int) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return ids
}

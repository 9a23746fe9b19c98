package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func measured(work, contender string, pass int, metric string, value float64) sample {
	return sample{Work: work, Contender: contender, Pass: pass, Values: values{metric: value}}
}

func rowOf(t *testing.T, samples []sample, goal string) row {
	t.Helper()
	found, _ := rows(samples)
	for _, r := range found {
		if r.goal.name == goal && r.ours {
			return r
		}
	}
	require.FailNow(t, "no row", goal)
	return row{}
}

func TestRows(t *testing.T) {
	t.Run("values of the same pass are divided", func(t *testing.T) {
		r := rowOf(t, []sample{
			measured("write", bare.name, 0, "tx/s", 100), measured("write", us.name, 0, "tx/s", 90),
			measured("write", us.name, 1, "tx/s", 50), measured("write", bare.name, 1, "tx/s", 100),
			measured("write", bare.name, 2, "tx/s", 10), measured("write", us.name, 2, "tx/s", 8),
			measured("write", us.name, 3, "tx/s", 1000), // its reference failed
		}, "write_to_no_message")
		require.Equal(t, []float64{0.5, 0.8, 0.9}, []float64{r.min, r.median, r.max})
		require.Equal(t, 3, r.passes)
		require.True(t, r.met())
	})

	t.Run("the best peer is the one with the highest median, and no limit", func(t *testing.T) {
		r := rowOf(t, []sample{
			measured("write", hand.name, 0, "tx/s", 500), measured("write", us.name, 0, "tx/s", 104),
			measured("write", river.name, 0, "tx/s", 10), measured("write", oagudo.name, 0, "tx/s", 100),
		}, "write_to_best_peer")
		require.Equal(t, oagudo.name, r.reference)
		require.InDelta(t, 1.04, r.median, 1e-9)
		require.False(t, r.met())
	})

	t.Run("a long backlog is compared with the contender's own short one", func(t *testing.T) {
		r := rowOf(t, []sample{
			measured("drain_noop", us.name, 0, "messages/s", 100), measured("drain_noop", hand.name, 0, "messages/s", 1000),
			measured("backlog", us.name, 0, "messages/s", 95),
		}, "backlog_to_short")
		require.InDelta(t, 0.95, r.median, 1e-9)
	})

	t.Run("a goal without a reference is judged by the value itself", func(t *testing.T) {
		r := rowOf(t, []sample{measured("idle", us.name, 0, "tx/s", 2.5)}, "idle_tx_per_second")
		require.InDelta(t, 2.5, r.median, 1e-9)
		require.False(t, r.met())
	})

	t.Run("goals that were not measured are named", func(t *testing.T) {
		_, unjudged := rows([]sample{measured("idle", us.name, 0, "tx/s", 1)})
		require.NotContains(t, unjudged, "idle_tx_per_second")
		require.Contains(t, unjudged, "drain_kafka_to_hand")
	})
}

func TestPrint(t *testing.T) {
	r := &results{Samples: []sample{measured("idle", us.name, 0, "tx/s", 1.5), measured("idle", us.name, 1, "tx/s", 2)}}
	var text strings.Builder
	r.print(&text)
	require.Contains(t, text.String(), "\nratio idle_tx_per_second 1.750 goal <= 2\n")
	require.Contains(t, text.String(), "| 1.50 | 1.75   | 2.00 | <= 2 | met |")
}

func TestOrderOf(t *testing.T) {
	require.EqualValues(t, 42, orderOf(body(42)))
	require.EqualValues(t, 42, orderOf(fmt.Appendf(nil, `{"note": "x", "order_id": "%s"}`, key(42)))) // as jsonb writes it
	require.EqualValues(t, -1, orderOf([]byte(`{"order_id":"4"}`)))
	require.EqualValues(t, -1, orderOf(nil))
}

func TestTracker(t *testing.T) {
	tracked := newTracker(3)
	for _, id := range []int64{1, 1, 3, 7, -1} {
		tracked.arrive(id)
	}
	require.False(t, tracked.wait(0))
	tracked.commit(3)
	tracked.arrive(2)
	require.True(t, tracked.wait(time.Minute))
	require.EqualValues(t, 1, tracked.again.Load())
	sorted, missing := tracked.latencies(1)
	require.Len(t, sorted, 1, "order 2 has no commit")
	require.Equal(t, 1, missing)
}

func TestWarnings(t *testing.T) {
	quiet := &results{Machine: [][2]string{{loadFact, "0.02 0.50 9.00"}}, Sizes: full.facts()}
	require.Empty(t, quiet.warnings())
	busy := &results{Machine: [][2]string{{loadFact, "1000.5 1 1"}}, Sizes: full.facts()}
	require.Len(t, busy.warnings(), 1)
	trial := full
	trial.divide(10)
	require.Len(t, (&results{Sizes: trial.facts()}).warnings(), 1)
}

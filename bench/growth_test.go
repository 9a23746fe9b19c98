package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlatness(t *testing.T) {
	samples := func(figure string, found ...float64) (all []values) {
		for _, value := range found {
			all = append(all, values{figure: value})
		}
		return all
	}
	verdict := func(figure string, p *site, got, reference []values) bool {
		value, ratio, found := compare(got, reference, figure)
		require.True(t, found)
		for _, f := range figures {
			if f.name == figure {
				return f.flat(p, value, ratio)
			}
		}
		require.Fail(t, "no such figure", figure)
		return false
	}
	alone, held := &site{}, &site{situation: situation{by: "little"}}

	t.Run("a ratio is the median of those of each pass", func(t *testing.T) {
		value, ratio, _ := compare(samples("x", 2, 40, 6), samples("x", 1, 10, 3), "x")
		require.InDelta(t, 6, value, 0)
		require.InDelta(t, 2, ratio, 0)
	})
	t.Run("a fifth more is flat, and what the levels of an index cost is not counted", func(t *testing.T) {
		const figure = "full poll, buffers"
		reference := samples(figure, 1000)
		require.True(t, verdict(figure, alone, samples(figure, 1200), reference))
		require.True(t, verdict(figure, alone, samples(figure, 1320), reference))
		require.False(t, verdict(figure, alone, samples(figure, 1340), reference))
		require.True(t, verdict(figure, held, samples(figure, 2300), reference))
		require.False(t, verdict(figure, held, samples(figure, 2400), reference))
	})
	t.Run("a drain may be a sixth slower", func(t *testing.T) {
		const figure = "drain, messages/s"
		require.True(t, verdict(figure, alone, samples(figure, 84), samples(figure, 100)))
		require.False(t, verdict(figure, alone, samples(figure, 83), samples(figure, 100)))
	})
	t.Run("a status has its limit, whatever the reference", func(t *testing.T) {
		const figure = "status, ms"
		require.True(t, verdict(figure, alone, samples(figure, 299), samples(figure, 1)))
		require.False(t, verdict(figure, alone, samples(figure, 301), samples(figure, 300)))
	})
}

package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
)

// cleared is a horizon that knows that every row up to 100 can be seen.
func cleared() *horizon {
	return &horizon{incarnation: "a", cleared: &clearance{last: 100}, now: 1, looked: 1}
}

// find is a read of lane 0 that found rows with these seqs.
func (h *horizon) find(full bool, states map[int64]int64, seqs ...int64) (rows []localtable.Row) {
	g := h.begin([]localtable.Lane{{Number: 0, Epoch: 1}})
	for _, seq := range seqs {
		rows = append(rows, localtable.Row{Seq: seq, Revision: states[seq]})
	}
	limit := len(rows) + 1
	if full {
		limit = len(rows)
	}
	h.end(g, 1, rows, limit)
	return rows
}

func settled(rows ...localtable.Row) (results []localtable.Result) {
	for _, row := range rows {
		results = append(results, localtable.Result{Row: row, Fate: localtable.Delivered})
	}
	return results
}

func TestBound(t *testing.T) {
	t.Run("goes with the first row and with the settlement of all", func(t *testing.T) {
		h := cleared()
		rows := h.find(false, nil, 5, 6)
		require.EqualValues(t, 4, h.bounds[0].low)
		h.settled(h.life(), settled(rows[1]))
		require.EqualValues(t, 4, h.bounds[0].low)
		h.settled(h.life(), settled(rows[0]))
		require.EqualValues(t, 6, h.bounds[0].low)
	})

	t.Run("counts a row once that failed and was delivered later", func(t *testing.T) {
		h := cleared()
		h.settled(h.life(), settled(h.find(false, nil, 5, 6)[0])) // 5 failed, 6 met an outage
		again := h.find(true, map[int64]int64{5: 1<<2 | stateRetry}, 5)
		h.settled(h.life(), settled(again...))
		require.EqualValues(t, 4, h.bounds[0].low, "6 is ready")
	})

	t.Run("knows nothing of a batch whose lane was read again", func(t *testing.T) {
		h := cleared()
		rows := h.find(false, nil, 5, 6)
		h.find(true, nil, 5)
		h.settled(h.life(), settled(rows[1]))
		require.EqualValues(t, 4, h.bounds[0].low)
	})

	t.Run("is not moved by a settlement of an earlier life of the server", func(t *testing.T) {
		h := cleared()
		rows, life := h.find(false, nil, 5, 6), h.life()
		h.incarnation = "b" // the settlement was taken back, and the rows were found again
		h.find(false, nil, 5, 6)
		h.settled(life, settled(rows...))
		require.EqualValues(t, 4, h.bounds[0].low)
	})
}

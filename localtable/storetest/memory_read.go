package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// Read implements [localtable.Store].
func (m *Memory) Read(ctx context.Context, destination string, lanes []localtable.Lane, limit int) ([]localtable.Row, error) {
	unlock, err := m.ask(ctx, &m.calls.Read)
	if err != nil {
		return nil, err
	}
	defer unlock()
	picked := m.due(destination, lanes, limit)
	sent := make(map[int64]bool, len(picked))
	for _, row := range picked {
		sent[row.Seq] = true
	}
	blocked := map[memoryKey]int64{}
	for _, row := range m.rows {
		if _, ok := blocked[row.key()]; !ok && row.holdsBack() && row.Message.Key != "" && !sent[row.Seq] {
			blocked[row.key()] = row.Seq
		}
	}
	rows := make([]localtable.Row, len(picked))
	for i, row := range picked {
		rows[i] = row.Row
		rows[i].Message = message(row.Message)
		seq, ok := blocked[row.key()]
		rows[i].Head, rows[i].Follower = row.isHead(), ok && seq < row.Seq && !row.Delayed
	}
	return rows, nil
}

// Others implements [localtable.Store].
func (m *Memory) Others(ctx context.Context, destination string, lanes []localtable.Lane, topics []string, limit int) ([]localtable.Row, error) {
	unlock, err := m.ask(ctx, &m.calls.Others)
	if err != nil {
		return nil, err
	}
	defer unlock()
	seen := map[string]bool{"": false}
	var rows []localtable.Row
	for _, row := range m.rows {
		ours := slices.ContainsFunc(lanes, func(lane localtable.Lane) bool { return lane.Number == row.Lane })
		if !ours || row.Destination != destination || row.state != ready || seen[row.Message.Key] {
			continue
		}
		seen[row.Message.Key] = row.Message.Key != ""
		if len(rows) < limit && !slices.Contains(topics, row.Message.Topic) {
			other := row.Row
			other.Message, other.Follower = message(row.Message), m.heldBack(row, true)
			rows = append(rows, other)
		}
	}
	return rows, nil
}

// due picks at most limit rows, by seq. Retries and waiting rows get the half of a full answer, ready ones the rest.
func (m *Memory) due(destination string, lanes []localtable.Lane, limit int) []*memoryRow {
	ours := make([]bool, len(m.lanes))
	for _, lane := range lanes {
		ours[lane.Number] = true
	}
	var again, fresh []*memoryRow
	now := time.Now()
	for _, row := range m.rows {
		switch {
		case row.Destination != destination || !ours[row.Lane]:
		case row.state == ready:
			fresh = append(fresh, row)
		case (row.state == retry || row.state == waiting) && !row.due.After(now):
			again = append(again, row)
		}
	}
	half := min(len(again), max((limit+1)/2, limit-len(fresh)))
	picked := append(slices.Clone(again[:half]), fresh[:min(len(fresh), limit-half)]...)
	slices.SortFunc(picked, func(a, b *memoryRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return picked
}

// insert makes rows visible; overlapping transactions commit in another order than they took their seqs.
func (m *Memory) insert(rows []*memoryRow) {
	for _, row := range rows {
		at, _ := slices.BinarySearchFunc(m.rows, row.Seq, func(r *memoryRow, seq int64) int { return cmp.Compare(r.Seq, seq) })
		m.rows = slices.Insert(m.rows, at, row)
	}
}

package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// Settle implements [localtable.Store].
func (m *Memory) Settle(ctx context.Context, settlement localtable.Settlement) (int, error) {
	unlock, err := m.ask(ctx, &m.calls.Settle)
	if err != nil {
		return 0, err
	}
	defer unlock()
	changed := 0
	freed := map[memoryKey]bool{}
	bySeq := m.bySeq(settlement.Results)
	for _, result := range settlement.Results {
		row := bySeq[result.Row.Seq]
		if result.Fate == localtable.Parked || !m.mine(row, result, settlement) {
			continue
		}
		held := row.holdsBack()
		m.settle(row, result, settlement)
		if held && !row.holdsBack() {
			freed[row.key()] = true
		}
		changed++
	}
	m.rows = slices.DeleteFunc(m.rows, func(row *memoryRow) bool { return row.Seq < 0 })
	for key := range freed {
		m.unpark(localtable.UnparkShare(settlement.Unpark, len(freed)), func(row *memoryRow) bool { return row.key() == key })
	}
	for _, result := range settlement.Results {
		row := bySeq[result.Row.Seq]
		if result.Fate == localtable.Parked && m.mine(row, result, settlement) && m.heldBack(row, true) {
			row.state = parked
			row.Revision++
			changed++
		}
	}
	if m.faults.LostSettles > 0 {
		m.faults.LostSettles--
		return 0, ErrDown
	}
	return changed, nil
}

// bySeq finds the rows of results; m.rows are sorted.
func (m *Memory) bySeq(results []localtable.Result) map[int64]*memoryRow {
	rows := make(map[int64]*memoryRow, len(results))
	for _, result := range results {
		at, ok := slices.BinarySearchFunc(m.rows, result.Row.Seq, func(r *memoryRow, seq int64) int { return cmp.Compare(r.Seq, seq) })
		if ok {
			rows[result.Row.Seq] = m.rows[at]
		}
	}
	return rows
}

func (m *Memory) mine(row *memoryRow, result localtable.Result, settlement localtable.Settlement) bool {
	return row != nil && row.Revision == result.Row.Revision && m.holds(settlement.Owner, row.Lane, settlement.Lanes)
}

// settle writes one result. A row that leaves the table gets a negative seq.
func (m *Memory) settle(row *memoryRow, result localtable.Result, settlement localtable.Settlement) {
	row.Revision++
	switch result.Fate {
	case localtable.Delivered:
		if settlement.Archive {
			m.delivered = append(m.delivered, memoryKept{at: time.Now()})
		}
		row.state, row.Seq = ready, -row.Seq
	case localtable.Retry:
		row.state, row.due = retry, time.Now().Add(result.After)
		row.fail(result, settlement.Errors)
	case localtable.Dead:
		row.state, row.holds = dead, settlement.DeadHolds
		row.fail(result, settlement.Errors)
	}
}

func (r *memoryRow) fail(result localtable.Result, keep int) {
	if !result.Spared || result.Fate == localtable.Dead {
		r.Attempts++
	}
	if result.Error != "" {
		r.errors = append(r.errors, localtable.Failure{At: time.Now(), Class: result.Class, Error: result.Error})
		r.errors = r.errors[max(len(r.errors)-keep, 0):]
	}
}

// heldBack reports whether a head of the key stands before row; parked ones count if asked for.
func (m *Memory) heldBack(row *memoryRow, countParked bool) bool {
	if row.Message.Key == "" || row.Delayed {
		return false
	}
	return slices.ContainsFunc(m.rows, func(other *memoryRow) bool {
		return other.Seq < row.Seq && other.key() == row.key() && other.holdsBack() && (countParked || other.state != parked)
	})
}

// unpark makes ready, in order, at most limit parked rows that match and that no head stands before.
func (m *Memory) unpark(limit int, match func(*memoryRow) bool) int {
	unparked := 0
	for _, row := range m.rows {
		if unparked < limit && row.state == parked && match(row) && !m.heldBack(row, false) {
			row.state = ready
			row.Revision++
			unparked++
		}
	}
	return unparked
}

// Sweep implements [localtable.Store].
func (m *Memory) Sweep(ctx context.Context, owner string, lanes []localtable.Lane, limit int) (int, error) {
	unlock, err := m.ask(ctx, &m.calls.Sweep)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return m.unpark(limit, func(row *memoryRow) bool { return m.holds(owner, row.Lane, lanes) }), nil
}

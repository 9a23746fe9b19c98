package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ localtable.OperatorStore = (*Memory)(nil)

var memoryStates = map[memoryState]localtable.State{
	waiting: localtable.StateWaiting, retry: localtable.StateRetry, parked: localtable.StateParked, dead: localtable.StateDead,
}

// FindHeld implements [localtable.OperatorStore].
func (m *Memory) FindHeld(ctx context.Context, f localtable.Filter, after int64, limit int, whole bool) ([]localtable.Held, error) {
	unlock, err := m.ask(ctx, &m.calls.FindHeld)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var found []localtable.Held
	for _, row := range m.rows {
		if len(found) < limit && row.Seq > after && row.state != ready && row.matches(f) {
			found = append(found, row.asHeld(whole))
		}
	}
	return found, nil
}

func (r *memoryRow) matches(f localtable.Filter) bool {
	class := ""
	if len(r.errors) > 0 {
		class = string(r.errors[len(r.errors)-1].Class)
	}
	return (len(f.States) == 0 || slices.Contains(f.States, memoryStates[r.state])) &&
		isOrAny(f.Destination, r.Destination) && isOrAny(f.Topic, r.Message.Topic) && isOrAny(f.Key, r.Message.Key) &&
		isOrAny(string(f.Class), class) && (len(f.IDs) == 0 || slices.Contains(f.IDs, r.Message.ID)) &&
		isWithin(f.Since, f.Until, r.Created)
}

func isOrAny(wanted, is string) bool { return wanted == "" || wanted == is }

func isWithin(since, until, is time.Time) bool {
	return (since.IsZero() || !is.Before(since)) && (until.IsZero() || is.Before(until))
}

func (r *memoryRow) asHeld(whole bool) localtable.Held {
	held := localtable.Held{
		Seq: r.Seq, Revision: r.Revision, State: memoryStates[r.state], Destination: r.Destination,
		Message: message(r.Message), Attempts: r.Attempts, Errors: slices.Clone(r.errors), Created: r.Created,
		Holds: r.isHead(),
	}
	if r.state == waiting || r.state == retry {
		held.Due = r.due
	}
	if !whole {
		held.Message, held.Errors = bare(held.Message), nil
	}
	return held
}

func bare(msg txmsg.Message) txmsg.Message {
	msg.Body, msg.Headers = nil, nil
	return msg
}

// isHead reports whether the row failed and holds back its key.
func (r *memoryRow) isHead() bool { return r.Message.Key != "" && r.state != parked && r.holdsBack() }

// Decide implements [localtable.OperatorStore].
func (m *Memory) Decide(ctx context.Context, d localtable.Decision) ([]localtable.Ref, error) {
	unlock, err := m.ask(ctx, &m.calls.Decide)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !slices.Contains([]localtable.Verb{localtable.VerbRetry, localtable.VerbSkip, localtable.VerbRelease}, d.Verb) {
		return nil, fmt.Errorf("storetest: Decision.Verb must be retry, skip or release, got %q", d.Verb)
	}
	var changed []localtable.Ref
	freed := map[memoryKey]bool{}
	for _, row := range m.rows {
		ref := localtable.Ref{Seq: row.Seq, Revision: row.Revision}
		if !slices.Contains(d.Refs, ref) || !row.takes(d.Verb) {
			continue
		}
		m.audit = append(m.audit, entry(row, d, len(m.audit)+1))
		row.decide(d.Verb)
		if d.Verb != localtable.VerbRetry {
			freed[row.key()] = true
		}
		changed = append(changed, ref)
	}
	m.rows = slices.DeleteFunc(m.rows, func(row *memoryRow) bool { return row.Seq < 0 })
	for key := range freed {
		m.unpark(localtable.UnparkShare(d.Unpark, len(freed)), func(row *memoryRow) bool { return row.key() == key })
	}
	if m.faults.LostDecisions > 0 {
		m.faults.LostDecisions--
		return nil, ErrDown
	}
	return changed, nil
}

func (r *memoryRow) takes(verb localtable.Verb) bool {
	switch verb {
	case localtable.VerbRetry:
		return r.state == dead || r.state == retry
	case localtable.VerbSkip:
		return r.state == dead
	case localtable.VerbRelease:
		return r.state == dead && r.isHead()
	default:
		return false
	}
}

// decide changes the row. One that leaves the table gets a negative seq.
func (r *memoryRow) decide(verb localtable.Verb) {
	r.Revision++
	switch verb {
	case localtable.VerbRetry:
		r.state, r.due, r.Attempts = retry, time.Now(), 0
	case localtable.VerbSkip:
		r.state, r.Seq = ready, -r.Seq
	case localtable.VerbRelease:
		r.holds = false
	}
}

func entry(row *memoryRow, d localtable.Decision, number int) localtable.AuditEntry {
	entry := localtable.AuditEntry{
		Entry: int64(number), At: time.Now(), Who: d.Reason.Who, Why: d.Reason.Why, Verb: d.Verb,
		Seq: row.Seq, Revision: row.Revision, State: memoryStates[row.state], Attempts: row.Attempts,
		Destination: row.Destination, Message: message(row.Message), Created: row.Created, Errors: slices.Clone(row.errors),
	}
	if d.Verb != localtable.VerbSkip {
		entry.Message, entry.Errors = bare(entry.Message), nil
	}
	return entry
}

// Audit implements [localtable.OperatorStore].
func (m *Memory) Audit(ctx context.Context, f localtable.AuditFilter, after int64, limit int) ([]localtable.AuditEntry, error) {
	unlock, err := m.ask(ctx, new(int))
	if err != nil {
		return nil, fmt.Errorf("storetest: read audit: %w", err)
	}
	defer unlock()
	var found []localtable.AuditEntry
	for _, e := range m.audit {
		if len(found) < limit && e.Entry > after && isOrAny(f.Who, e.Who) && isOrAny(string(f.Verb), string(e.Verb)) &&
			isOrAny(f.ID, e.Message.ID) && isOrAny(f.Destination, e.Destination) && isOrAny(f.Topic, e.Message.Topic) &&
			isOrAny(f.Key, e.Message.Key) && isWithin(f.Since, f.Until, e.At) {
			e.Message = message(e.Message)
			found = append(found, e)
		}
	}
	return found, nil
}

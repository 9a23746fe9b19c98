package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ localtable.Store[*Tx] = (*Memory)(nil)

// ErrDown is what a Memory answers that is down or lost a reply.
var ErrDown = errors.New("storetest: database is down")

// Faults are what a Memory does wrong.
type Faults struct {
	// Down: nothing begins, commits or is answered.
	Down bool
	// LostSettles is how many of the next calls of Settle take effect and answer ErrDown.
	LostSettles int
	// LostDecisions is the same of Decide.
	LostDecisions int
	// Unclear is how many of the next commits answer [txmsg.ErrOutcomeUnknown]; UnclearCommitted tells whether they
	// took effect.
	Unclear          int
	UnclearCommitted bool
	// OutcomeErrors is how many of the next questions for an outcome are not answered; OutcomeUntold, that none is.
	OutcomeErrors int
	OutcomeUntold bool
	// Deaf: who listens is told that nothing arrives.
	Deaf bool
	// Snapshot is what Status says of the oldest snapshot.
	Snapshot time.Duration
}

// Calls counts what a Memory was asked.
type Calls struct {
	Lease, Read, Others, Settle, Sweep, Prune, Status, Commit int
	FindHeld, Decide, Notify, Listen                          int
}

// Memory is a database in memory: a [localtable.Store] with the transactions it needs.
type Memory struct {
	mu        sync.Mutex
	lanes     []memoryLane
	live      map[string]time.Time // owner → until
	seq       int64
	rows      []*memoryRow // not delivered, by seq
	delivered []memoryKept
	audit     []localtable.AuditEntry
	faults    Faults
	calls     Calls
	open      int // transactions
	listeners map[*memoryListener]bool
}

type memoryLane struct {
	owner string
	epoch int64
	until time.Time
}

type memoryKept struct{ at time.Time }

type memoryState int

const (
	ready memoryState = iota
	waiting
	retry
	parked
	dead
)

type memoryRow struct {
	localtable.Row
	state  memoryState
	due    time.Time // of waiting and retry
	holds  bool      // of dead
	errors []localtable.Failure
}

// holdsBack reports whether the row holds back the later ones of its key.
func (r *memoryRow) holdsBack() bool {
	return !r.Delayed && (r.state == retry || r.state == parked || r.state == dead && r.holds)
}

type memoryKey struct{ destination, key string }

func (r *memoryRow) key() memoryKey { return memoryKey{r.Destination, r.Message.Key} }

// NewMemory returns an empty database with so many lanes.
func NewMemory(lanes int) *Memory {
	return &Memory{lanes: make([]memoryLane, lanes), live: map[string]time.Time{}, listeners: map[*memoryListener]bool{}}
}

// SetFaults replaces the faults. Connections of those who listen do not survive Down.
func (m *Memory) SetFaults(faults Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = faults
	if faults.Down {
		m.cut()
	}
}

// Calls returns what was asked until now.
func (m *Memory) Calls() Calls {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// OpenTransactions returns how many transactions have begun and not ended.
func (m *Memory) OpenTransactions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Owners returns the owner of each lane, "" for a free one.
func (m *Memory) Owners() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := make([]string, len(m.lanes))
	for number, lane := range m.lanes {
		if time.Now().Before(lane.until) {
			owners[number] = lane.owner
		}
	}
	return owners
}

// Kept returns how many delivered rows are kept.
func (m *Memory) Kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.delivered)
}

// Age moves the times of a row that is not delivered into the past: due and created.
func (m *Memory) Age(messageID string, by time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.find(messageID)
	if row == nil {
		return fmt.Errorf("storetest: no row of message %s", messageID)
	}
	row.due, row.Created = row.due.Add(-by), row.Created.Add(-by)
	return nil
}

// AgeDelivered moves the time of delivery of every row that is kept into the past.
func (m *Memory) AgeDelivered(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.delivered {
		m.delivered[i].at = m.delivered[i].at.Add(-by)
	}
}

// Expire ends the leases of owner and its being live, as time does.
func (m *Memory) Expire(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	past := time.Now().Add(-time.Nanosecond)
	if _, ok := m.live[owner]; ok {
		m.live[owner] = past
	}
	for number := range m.lanes {
		if m.lanes[number].owner == owner {
			m.lanes[number].until = past
		}
	}
}

// Errors returns the history of a row that is not delivered, newest last.
func (m *Memory) Errors(messageID string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var texts []string
	if row := m.find(messageID); row != nil {
		for _, failure := range row.errors {
			texts = append(texts, failure.Error)
		}
	}
	return texts
}

func (m *Memory) find(messageID string) *memoryRow {
	for _, row := range m.rows {
		if row.Message.ID == messageID {
			return row
		}
	}
	return nil
}

// Status implements [localtable.Store].
func (m *Memory) Status(ctx context.Context) (localtable.Status, error) {
	unlock, err := m.ask(ctx, &m.calls.Status)
	if err != nil {
		return localtable.Status{}, err
	}
	defer unlock()
	status := localtable.Status{OldestSnapshot: m.faults.Snapshot}
	now := time.Now()
	for _, row := range m.rows {
		*[]*int64{&status.Ready, &status.Waiting, &status.Retry, &status.Parked, &status.Dead}[row.state]++
		due := row.Created
		if row.state == waiting || row.state == retry {
			due = row.due
		}
		if row.state != dead && !due.After(now) {
			status.OldestUnsent = max(status.OldestUnsent, now.Sub(row.Created))
		}
		toSend := row.state == ready || row.state == waiting || row.state == retry
		if toSend && !slices.Contains(status.Destinations, row.Destination) {
			status.Destinations = append(status.Destinations, row.Destination)
		}
	}
	slices.Sort(status.Destinations)
	return status, nil
}

// PruneMessages implements [localtable.Store].
func (m *Memory) PruneMessages(ctx context.Context, retention time.Duration, limit int) (int, error) {
	unlock, err := m.ask(ctx, &m.calls.Prune)
	if err != nil {
		return 0, err
	}
	defer unlock()
	removed := 0
	m.delivered = slices.DeleteFunc(m.delivered, func(kept memoryKept) bool {
		if removed == limit || time.Since(kept.at) <= retention {
			return false
		}
		removed++
		return true
	})
	return removed, nil
}

// ask begins a question to the database; the caller calls unlock when it is answered.
func (m *Memory) ask(ctx context.Context, count *int) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("storetest: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	*count++
	if m.faults.Down {
		m.mu.Unlock()
		return nil, ErrDown
	}
	return m.mu.Unlock, nil
}

// lane spreads rows without a key by their seq.
func (m *Memory) lane(row *memoryRow) int {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s\x00%s", row.Destination, row.Message.Key)
	if row.Message.Key == "" {
		fmt.Fprint(hash, row.Seq)
	}
	return int(hash.Sum32() % uint32(len(m.lanes)))
}

func message(m txmsg.Message) txmsg.Message {
	m = m.Clone()
	m.Delay = 0
	return m
}

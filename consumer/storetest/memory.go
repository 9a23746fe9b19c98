package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

var (
	_ consumer.Store[*Tx]    = (*Memory)(nil)
	_ txmsg.Database[*Tx]    = (*Memory)(nil)
	_ txmsg.Transaction[*Tx] = (*Tx)(nil)
)

// ErrDown is what a Memory that is down answers.
var ErrDown = errors.New("storetest: database is down")

// Faults are what a Memory does wrong.
type Faults struct {
	// Down: nothing begins, and what is open can neither mark nor commit.
	Down bool
	// Unclear is how many of the next commits answer [txmsg.ErrOutcomeUnknown]; UnclearCommitted tells whether they
	// took effect.
	Unclear          int
	UnclearCommitted bool
	// Bury is how many of the next calls of Bury fail.
	Bury int
	// Commit are the errors of the next commits, which roll back. A nil among them is a commit that works.
	Commit []error
}

// Memory is a database in memory: a [consumer.Store] with the transactions it needs. The zero value works.
type Memory struct {
	mu      sync.Mutex
	inbox   map[inboxKey]*inboxRow
	letters map[inboxKey]consumer.DeadLetter
	faults  Faults
}

type inboxKey struct{ consumer, messageID string }

type inboxRow struct {
	at        time.Time
	tx        *Tx // the one that wrote it
	committed bool
}

// SetFaults replaces the faults.
func (m *Memory) SetFaults(faults Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = faults
}

// Marked returns how many messages the consumer's inbox holds.
func (m *Memory) Marked(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 0
	for key, row := range m.inbox {
		if key.consumer == name && row.committed {
			count++
		}
	}
	return count
}

// Letters returns the dead letters of the consumer.
func (m *Memory) Letters(name string) []consumer.DeadLetter {
	m.mu.Lock()
	defer m.mu.Unlock()
	var letters []consumer.DeadLetter
	for key, letter := range m.letters {
		if key.consumer == name {
			letters = append(letters, letter)
		}
	}
	return letters
}

// Age moves the time of the message's inbox row into the past.
func (m *Memory) Age(name, messageID string, by time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.inbox[inboxKey{name, messageID}]
	if row == nil {
		return fmt.Errorf("storetest: %s has no inbox row of %s", name, messageID)
	}
	row.at = row.at.Add(-by)
	return nil
}

// Mark implements [consumer.Store].
func (m *Memory) Mark(ctx context.Context, tx *Tx, name, messageID string) (bool, error) {
	key := inboxKey{name, messageID}
	for {
		row, err := m.mark(tx, key)
		switch {
		case err != nil:
			return false, err
		case row == nil:
			return true, nil
		case row.tx == tx:
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("storetest: mark: %w", context.Cause(ctx))
		case <-row.tx.ended:
			if row.committed {
				return false, nil
			}
		}
	}
}

// mark writes the row, or returns the one that is there.
func (m *Memory) mark(tx *Tx, key inboxKey) (*inboxRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.Down {
		return nil, ErrDown
	}
	if row := m.inbox[key]; row != nil {
		return row, nil
	}
	if m.inbox == nil {
		m.inbox = map[inboxKey]*inboxRow{}
	}
	row := &inboxRow{at: time.Now(), tx: tx}
	m.inbox[key] = row
	tx.rows = append(tx.rows, row)
	return nil, nil
}

// Bury implements [consumer.Store].
func (m *Memory) Bury(ctx context.Context, letter consumer.DeadLetter) error {
	if ctx.Err() != nil {
		return fmt.Errorf("storetest: bury: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.faults.Down:
		return ErrDown
	case m.faults.Bury > 0:
		m.faults.Bury--
		return ErrDown
	}
	if m.letters == nil {
		m.letters = map[inboxKey]consumer.DeadLetter{}
	}
	letter.Message, letter.Errors = letter.Message.Clone(), slices.Clone(letter.Errors)
	m.letters[inboxKey{letter.Consumer, letter.Message.ID}] = letter
	return nil
}

// PruneInbox implements [consumer.Store].
func (m *Memory) PruneInbox(_ context.Context, retention time.Duration, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.Down {
		return 0, ErrDown
	}
	pruned := 0
	maps.DeleteFunc(m.inbox, func(_ inboxKey, row *inboxRow) bool {
		old := row.committed && time.Since(row.at) > retention && pruned < limit
		if old {
			pruned++
		}
		return old
	})
	return pruned, nil
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ checker.Store[*MemoryTx] = (*Memory)(nil)

// Memory is a [checker.Store] in memory that passes the suite. Its transactions hold rows of text ([MemoryTx.Put]) beside
// the records, and [Memory.Inject] makes its calls fail. Its methods may be called by many goroutines.
type Memory struct {
	mu       sync.Mutex
	identity string
	rows     map[string]string
	halves   map[string]txmsg.Outcome
	open     map[string]*MemoryTx // by the half that it records
	faults   map[Op][]Fault
}

// NewMemory returns an empty store with an identity of its own.
func NewMemory() *Memory {
	return &Memory{
		identity: uuid.NewString(), rows: map[string]string{}, halves: map[string]txmsg.Outcome{},
		open: map[string]*MemoryTx{}, faults: map[Op][]Fault{},
	}
}

// Row returns the committed row called key.
func (m *Memory) Row(key string) (value string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.rows[key]
	return value, ok
}

// Rows returns how many rows are committed.
func (m *Memory) Rows() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// Keys returns the keys of the committed rows.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.rows))
}

// Halves returns a copy of the committed records and tombstones.
func (m *Memory) Halves() map[string]txmsg.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.halves)
}

// Identity implements [checker.Store].
func (m *Memory) Identity(ctx context.Context) (string, error) {
	if fault := m.fault(OpIdentity); fault.Err != nil {
		return "", fault.Err
	}
	return m.identity, ctx.Err()
}

// Begin implements [txmsg.Database].
func (m *Memory) Begin(ctx context.Context, savepoint func() func()) (txmsg.Transaction[*MemoryTx], error) {
	if fault := m.fault(OpBegin); fault.Err != nil {
		return nil, fault.Err
	}
	tx := &MemoryTx{
		store: m, savepoint: savepoint, rows: map[string]string{}, halves: map[string]bool{}, done: make(chan struct{}),
	}
	return tx.asTransaction(), ctx.Err()
}

// Exec implements [txmsg.Database] for statements that [Put] made.
func (m *Memory) Exec(_ context.Context, tx *MemoryTx, stmts ...txmsg.Statement) error {
	for _, stmt := range stmts {
		if stmt.SQL != putSQL {
			return tx.abort(fmt.Errorf("storetest: unknown statement %q", stmt.SQL))
		}
		if err := tx.Put(stmt.Args[0].(string), stmt.Args[1].(string)); err != nil {
			return err
		}
	}
	return nil
}

const putSQL = "PUT"

// Put is the statement that does what [MemoryTx.Put] does.
func Put(key, value string) txmsg.Statement {
	return txmsg.Statement{SQL: putSQL, Args: []any{key, value}}
}

// Conflict implements [txmsg.Database]: it knows [ErrConflict].
func (m *Memory) Conflict(err error) bool { return errors.Is(err, ErrConflict) }

// Record implements [checker.Store].
func (m *Memory) Record(_ context.Context, tx *MemoryTx, halfID string) error {
	fault := m.fault(OpRecord)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case tx.err != nil:
		return tx.err
	case fault.Err != nil:
		tx.err = fault.Err
	case m.halves[halfID] == txmsg.RolledBack:
		tx.err = fmt.Errorf("storetest: half %s: %w", halfID, txmsg.ErrLostRace)
	case m.halves[halfID] == txmsg.Committed || m.open[halfID] != nil:
		tx.err = fmt.Errorf("storetest: half %s is recorded twice", halfID)
	default:
		m.open[halfID] = tx
		tx.halves[halfID] = true
	}
	return tx.err
}

// Forget implements [checker.Store].
func (m *Memory) Forget(_ context.Context, tx *MemoryTx, halfID string) error {
	fault := m.fault(OpForget)
	m.mu.Lock()
	defer m.mu.Unlock()
	if tx.err == nil {
		tx.err = fault.Err
	}
	if tx.err == nil {
		tx.halves[halfID] = false // the row stays locked until the transaction ends
	}
	return tx.err
}

// Fence implements [checker.Store].
func (m *Memory) Fence(ctx context.Context, halfID string, wait time.Duration) (txmsg.Outcome, error) {
	if fault := m.fault(OpFence); fault.Err != nil {
		return txmsg.Unknown, fault.Err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return txmsg.Unknown, err
		}
		m.mu.Lock()
		tx := m.open[halfID]
		if tx == nil {
			outcome := m.halves[halfID]
			if outcome == txmsg.Unknown {
				outcome = txmsg.RolledBack
				m.halves[halfID] = outcome
			}
			m.mu.Unlock()
			return outcome, nil
		}
		m.mu.Unlock()
		select {
		case <-tx.done:
		case <-timer.C:
			return txmsg.Unknown, nil
		case <-ctx.Done():
		}
	}
}

// PruneHalves implements [checker.Store].
func (m *Memory) PruneHalves(ctx context.Context, retention time.Duration, limit int) (int, error) {
	if fault := m.fault(OpPrune); fault.Err != nil {
		return 0, fault.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pruned := 0
	for id := range m.halves {
		if pruned == limit {
			break
		}
		seconds, nanos := uuid.MustParse(id).Time().UnixTime()
		if time.Since(time.Unix(seconds, nanos)) > retention {
			delete(m.halves, id)
			pruned++
		}
	}
	return pruned, ctx.Err()
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ txmsg.Transaction[*Tx] = (*Tx)(nil)

// Tx is a transaction of a Memory.
type Tx struct {
	memory    *Memory
	savepoint func() (rollback func())
	rows      []*memoryRow
	ended     bool
	outcome   txmsg.Outcome
}

// Begin implements [txmsg.Database].
func (m *Memory) Begin(ctx context.Context, savepoint func() (rollback func())) (txmsg.Transaction[*Tx], error) {
	unlock, err := m.ask(ctx, new(int))
	if err != nil {
		return nil, err
	}
	defer unlock()
	m.open++
	return &Tx{memory: m, savepoint: savepoint}, nil
}

// Conflict implements [txmsg.Database].
func (m *Memory) Conflict(error) bool { return false }

// Exec implements [txmsg.Database].
func (m *Memory) Exec(ctx context.Context, tx *Tx, stmts ...txmsg.Statement) error {
	unlock, err := m.ask(ctx, new(int))
	if err != nil {
		return err
	}
	defer unlock()
	if tx.ended {
		return fmt.Errorf("storetest: exec: %w", txmsg.ErrRolledBack)
	}
	tx.write(stmts)
	return nil
}

// Insert implements [localtable.Store].
func (m *Memory) Insert(entries []localtable.Entry) []txmsg.Statement {
	args := make([]any, len(entries))
	for i, entry := range entries {
		entry.Message.Headers = entry.Message.Clone().Headers
		args[i] = entry
	}
	return []txmsg.Statement{{SQL: "INSERT", Args: args}}
}

// write gives the rows their seqs, as a sequence does: before the commit.
func (t *Tx) write(stmts []txmsg.Statement) {
	for _, stmt := range stmts {
		for _, arg := range stmt.Args {
			entry := arg.(localtable.Entry)
			t.memory.seq++
			row := &memoryRow{Row: localtable.Row{
				Seq: t.memory.seq, Revision: 1, Destination: entry.Destination, Message: message(entry.Message),
				Delayed: entry.Message.Delay > 0, Created: time.Now(),
			}}
			if row.Delayed {
				row.state, row.due = waiting, row.Created.Add(entry.Message.Delay)
			}
			row.Lane = t.memory.lane(row)
			t.rows = append(t.rows, row)
		}
	}
}

// Nested runs fn as a nested transaction, which is rolled back if fn returns an error.
func (t *Tx) Nested(fn func() error) error {
	rollback, mark := t.savepoint(), len(t.rows)
	err := fn()
	if err != nil {
		rollback()
		t.rows = t.rows[:mark]
	}
	return err
}

// Tx implements [txmsg.Transaction].
func (t *Tx) Tx() *Tx { return t }

// Commit implements [txmsg.Transaction].
func (t *Tx) Commit(ctx context.Context, along ...txmsg.Statement) error {
	unlock, err := t.memory.ask(ctx, &t.memory.calls.Commit)
	if err != nil { // COMMIT was not sent
		return errors.Join(err, t.Rollback(ctx))
	}
	defer unlock()
	if t.ended {
		return fmt.Errorf("storetest: commit: %w", txmsg.ErrRolledBack)
	}
	t.end()
	t.outcome = txmsg.Committed
	faults := &t.memory.faults
	if faults.Unclear > 0 {
		faults.Unclear--
		err = fmt.Errorf("storetest: commit: %w", txmsg.ErrOutcomeUnknown)
		if !faults.UnclearCommitted {
			t.outcome = txmsg.RolledBack
			return err
		}
	}
	t.write(along)
	t.memory.insert(t.rows)
	return err
}

// Rollback implements [txmsg.Transaction].
func (t *Tx) Rollback(context.Context) error {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if !t.ended {
		t.end()
		t.outcome = txmsg.RolledBack
	}
	return nil
}

func (t *Tx) end() {
	t.ended = true
	t.memory.open--
}

// Outcome implements [txmsg.Transaction].
func (t *Tx) Outcome(ctx context.Context) (txmsg.Outcome, error) {
	for {
		outcome, err := t.ask(ctx)
		if err == nil {
			return outcome, nil
		}
		select {
		case <-ctx.Done():
			return txmsg.Unknown, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (t *Tx) ask(ctx context.Context) (txmsg.Outcome, error) {
	unlock, err := t.memory.ask(ctx, new(int))
	if err != nil {
		return txmsg.Unknown, err
	}
	defer unlock()
	switch faults := &t.memory.faults; {
	case faults.OutcomeUntold:
		return txmsg.Unknown, nil
	case faults.OutcomeErrors > 0:
		faults.OutcomeErrors--
		return txmsg.Unknown, ErrDown
	default:
		return t.outcome, nil
	}
}

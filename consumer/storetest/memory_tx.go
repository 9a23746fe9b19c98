package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Tx is a transaction of a Memory.
type Tx struct {
	memory   *Memory
	rows     []*inboxRow
	effects  []func()
	ended    chan struct{}
	finished bool
}

// OnCommit has f called when the transaction commits, in one step with its inbox rows; f must not use the Memory. A rolled
// back transaction never calls it.
func (t *Tx) OnCommit(f func()) { t.effects = append(t.effects, f) }

// Begin implements [txmsg.Database]. A Tx has no nested transactions.
func (m *Memory) Begin(ctx context.Context, _ func() (rollback func())) (txmsg.Transaction[*Tx], error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("storetest: begin: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.Down {
		return nil, ErrDown
	}
	return &Tx{memory: m, ended: make(chan struct{})}, nil
}

// Exec implements [txmsg.Database]. A Memory has no statements.
func (m *Memory) Exec(context.Context, *Tx, ...txmsg.Statement) error {
	return errors.ErrUnsupported
}

// Conflict implements [txmsg.Database].
func (m *Memory) Conflict(err error) bool { return errors.Is(err, txmsg.ErrLostRace) }

// Tx implements [txmsg.Transaction].
func (t *Tx) Tx() *Tx { return t }

// Commit implements [txmsg.Transaction].
func (t *Tx) Commit(context.Context, ...txmsg.Statement) error {
	m := t.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.finished {
		return txmsg.ErrRolledBack
	}
	var err error
	committed := true
	switch {
	case m.faults.Down:
		err, committed = ErrDown, false
	case m.faults.Unclear > 0:
		m.faults.Unclear--
		err, committed = fmt.Errorf("storetest: reply lost: %w", txmsg.ErrOutcomeUnknown), m.faults.UnclearCommitted
	case len(m.faults.Commit) > 0:
		err, m.faults.Commit = m.faults.Commit[0], m.faults.Commit[1:]
		committed = err == nil
	}
	t.end(committed)
	return err
}

// Rollback implements [txmsg.Transaction].
func (t *Tx) Rollback(context.Context) error {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if !t.finished {
		t.end(false)
	}
	return nil
}

// Outcome implements [txmsg.Transaction]: a Memory cannot tell.
func (t *Tx) Outcome(context.Context) (txmsg.Outcome, error) { return txmsg.Unknown, nil }

func (t *Tx) end(committed bool) {
	t.finished = true
	for _, row := range t.rows {
		row.committed = committed
	}
	if committed {
		for _, effect := range t.effects {
			effect()
		}
	} else {
		maps.DeleteFunc(t.memory.inbox, func(_ inboxKey, row *inboxRow) bool { return slices.Contains(t.rows, row) })
	}
	close(t.ended)
}

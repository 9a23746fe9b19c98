package storetest

import (
	"context"
	"fmt"
	"maps"

	"github.com/txmsg/txmsg-go/txmsg"
)

// MemoryTx is the handle that the callback of a transaction of [Memory] gets.
type MemoryTx struct {
	store     *Memory
	savepoint func() func()
	rows      map[string]string
	halves    map[string]bool // false: forgotten
	err       error           // what aborted the transaction
	outcome   txmsg.Outcome
	done      chan struct{} // closed when it has ended
}

// Put writes a row.
func (tx *MemoryTx) Put(key, value string) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.err != nil {
		return tx.err
	}
	tx.rows[key] = value
	return nil
}

// Nested runs fn in a nested transaction: if fn returns an error, what was written and recorded in it is undone, and a
// statement that failed in it no longer stands in the way of the commit.
func (tx *MemoryTx) Nested(fn func() error) error {
	undo := tx.savepoint()
	tx.store.mu.Lock()
	rows, halves, aborted := maps.Clone(tx.rows), maps.Clone(tx.halves), tx.err
	tx.store.mu.Unlock()
	err := fn()
	if err == nil {
		return nil
	}
	tx.store.mu.Lock()
	for id := range tx.halves {
		if _, before := halves[id]; !before {
			delete(tx.store.open, id)
		}
	}
	tx.rows, tx.halves, tx.err = rows, halves, aborted
	tx.store.mu.Unlock()
	undo()
	return err
}

func (tx *MemoryTx) abort(err error) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.err == nil {
		tx.err = err
	}
	return tx.err
}

// end writes the outcome; the first call counts.
func (tx *MemoryTx) end(outcome txmsg.Outcome) {
	m := tx.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if tx.outcome != txmsg.Unknown {
		return
	}
	tx.outcome = outcome
	for id, recorded := range tx.halves {
		delete(m.open, id)
		if recorded && outcome == txmsg.Committed {
			m.halves[id] = txmsg.Committed
		}
	}
	if outcome == txmsg.Committed {
		maps.Copy(m.rows, tx.rows)
	}
	close(tx.done)
}

// transaction is the engine's side of a MemoryTx, which the callback does not see.
type transaction struct {
	tx   *MemoryTx
	sent bool // COMMIT was sent and its reply was lost
}

func (tx *MemoryTx) asTransaction() *transaction { return &transaction{tx: tx} }

func (t *transaction) Tx() *MemoryTx { return t.tx }

func (t *transaction) Commit(ctx context.Context, along ...txmsg.Statement) error {
	m := t.tx.store
	fault := m.fault(OpCommit)
	m.mu.Lock()
	aborted := t.tx.err
	m.mu.Unlock()
	if aborted != nil {
		t.tx.end(txmsg.RolledBack)
		return fmt.Errorf("storetest: %w: %v", txmsg.ErrRolledBack, aborted)
	}
	if err := m.Exec(ctx, t.tx, along...); err != nil {
		t.tx.end(txmsg.RolledBack)
		return err
	}
	switch {
	case fault.Lost == LostReply:
		t.sent = true
		t.tx.end(txmsg.Committed)
		return fmt.Errorf("storetest: commit: %w", txmsg.ErrOutcomeUnknown)
	case fault.Lost == LostCommit:
		t.sent = true
		return fmt.Errorf("storetest: commit: %w", txmsg.ErrOutcomeUnknown)
	case fault.Err != nil:
		t.tx.end(txmsg.RolledBack)
		return fault.Err
	}
	t.tx.end(txmsg.Committed)
	return nil
}

func (t *transaction) Rollback(context.Context) error {
	if !t.sent { // after a lost COMMIT the connection is gone, and the server ends the transaction when it likes
		t.tx.end(txmsg.RolledBack)
	}
	return nil
}

func (t *transaction) Outcome(ctx context.Context) (txmsg.Outcome, error) {
	select {
	case <-t.tx.done:
		return t.tx.outcome, nil
	case <-ctx.Done():
		return txmsg.Unknown, ctx.Err()
	}
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Nested runs fn in a nested transaction of tx, the one that a callback of Transact got. If fn returns an error, panics
// or ends its goroutine, what fn wrote and what it published is undone, and tx goes on without it. The error is
// fn's own; one that wraps [txmsg.ErrRolledBack] says that all of tx is lost. It is the only way to a savepoint: in a
// transaction of this DB the statements SAVEPOINT, RELEASE and ROLLBACK TO are refused.
func (db *DB) Nested(ctx context.Context, tx *sql.Tx, fn func(ctx context.Context) error) error {
	found, ok := db.live.Load(tx)
	if !ok {
		return errors.New("sqlite: nested: tx must be one that this DB has begun and that has not ended")
	}
	return found.(*transaction).nested(ctx, fn)
}

func (t *transaction) nested(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	if t.fate.gone.Load() {
		return fmt.Errorf("sqlite: nested: %w", txmsg.ErrRolledBack)
	}
	// The savepoint must end whatever becomes of ctx: an interrupted statement rolls back all of tx.
	own := context.WithoutCancel(ctx)
	name := fmt.Sprintf("txmsg_%d", t.depth+1)
	if err := t.mark(own, "SAVEPOINT "+name); err != nil {
		return fmt.Errorf("sqlite: nested: %w", err)
	}
	t.depth++
	forget := func() {}
	if t.savepoint != nil {
		forget = t.savepoint()
	}
	kept := false
	defer func() {
		t.depth--
		if kept {
			return
		}
		if failed := t.undo(own, name); failed != nil {
			// What fn wrote still stands, and a callback that swallows the error must not commit it.
			t.doomed = errors.Join(t.doomed, failed)
			err = errors.Join(err, failed)
			return
		}
		forget()
	}()
	if err := fn(ctx); err != nil {
		return err
	}
	if t.fate.gone.Load() {
		return nil // undo says so
	}
	if err := t.mark(own, "RELEASE "+name); err != nil {
		return fmt.Errorf("sqlite: nested: %w", err)
	}
	kept = true
	return nil
}

func (t *transaction) undo(ctx context.Context, name string) error {
	if t.fate.gone.Load() {
		return fmt.Errorf("sqlite: nested: %w", txmsg.ErrRolledBack)
	}
	if err := t.mark(ctx, "ROLLBACK TO "+name+"; RELEASE "+name); err != nil {
		return fmt.Errorf("sqlite: nested: undo: %w", err)
	}
	return nil
}

// mark runs a statement about a savepoint, which the guard refuses to everybody else.
func (t *transaction) mark(ctx context.Context, query string) error {
	t.fate.nesting.Store(true)
	defer t.fate.nesting.Store(false)
	_, err := t.tx.ExecContext(ctx, query)
	return err
}

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/txmsg/txmsg-go/txmsg"
)

// transaction is one BEGIN IMMEDIATE on the connection of a writer.
type transaction struct {
	db        *DB
	writer    *writer
	conn      *sql.Conn
	tx        *sql.Tx
	fate      fate
	doomed    error // why it must not commit although SQLite would
	savepoint func() (rollback func())
	depth     int  // of savepoints
	ended     bool // Commit or Rollback was called
	cancel    context.CancelFunc
}

// Begin implements [txmsg.Database]. It waits for its turn in this process, and then for other processes until the
// busy timeout is over. savepoint may be nil.
func (db *DB) Begin(ctx context.Context, savepoint func() (rollback func())) (txmsg.Transaction[*sql.Tx], error) {
	t, err := db.begin(ctx, &db.writer, savepoint)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (db *DB) begin(ctx context.Context, w *writer, savepoint func() (rollback func())) (*transaction, error) {
	select {
	case db.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("sqlite: begin: %w", context.Cause(ctx))
	}
	t := &transaction{db: db, writer: w, savepoint: savepoint}
	if err := t.start(ctx); err != nil {
		t.free()
		return nil, fmt.Errorf("sqlite: begin: %w", err)
	}
	db.live.Store(t.tx, t)
	return t, nil
}

func (t *transaction) start(ctx context.Context) (err error) {
	if t.conn, err = t.writer.db.Conn(ctx); err != nil {
		return err
	}
	if err := t.conn.Raw(t.writer.guard.watch); err != nil {
		return err
	}
	t.writer.guard.fate.Store(&t.fate)
	// database/sql rolls a transaction back in the background when its context ends, at any moment: the
	// transaction's own context ends with ctx only while BEGIN waits.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	keep := context.AfterFunc(ctx, cancel)
	t.tx, err = t.conn.BeginTx(own, nil)
	if !keep() {
		if err == nil {
			_ = t.tx.Rollback()
		}
		return context.Cause(ctx)
	}
	return err
}

// Tx implements [txmsg.Transaction].
func (t *transaction) Tx() *sql.Tx { return t.tx }

// Commit implements [txmsg.Transaction]. ctx bounds the statements of along; COMMIT itself cannot be interrupted.
func (t *transaction) Commit(ctx context.Context, along ...txmsg.Statement) error {
	if t.ended {
		return fmt.Errorf("sqlite: commit: %w: it had ended", txmsg.ErrRolledBack)
	}
	if err := t.prepare(ctx, along); err != nil {
		return errors.Join(fmt.Errorf("sqlite: commit: %w", err), t.Rollback(ctx))
	}
	t.ended = true
	t.fate.permitted.Store(true)
	err := t.tx.Commit()
	switch {
	case err == nil:
		t.free()
		return nil
	case errors.Is(err, sql.ErrTxDone), harmless(err) && t.fate.gone.Load():
		t.free()
		return fmt.Errorf("sqlite: commit: %w: %w", txmsg.ErrRolledBack, err)
	default:
		t.discard()
		return fmt.Errorf("sqlite: commit: %w: %w", txmsg.ErrOutcomeUnknown, err)
	}
}

// prepare writes along, and makes sure that it was written in the transaction that Begin began.
func (t *transaction) prepare(ctx context.Context, along []txmsg.Statement) error {
	if t.fate.gone.Load() {
		return fmt.Errorf("%w by an earlier error or by its own callback", txmsg.ErrRolledBack)
	}
	if t.doomed != nil {
		return fmt.Errorf("%w: %w", txmsg.ErrRolledBack, t.doomed)
	}
	if err := t.db.Exec(ctx, t.tx, along...); err != nil {
		if errors.Is(err, sql.ErrTxDone) || t.fate.gone.Load() {
			return fmt.Errorf("%w: %w", txmsg.ErrRolledBack, err)
		}
		return err
	}
	return ctx.Err()
}

// Rollback implements [txmsg.Transaction].
func (t *transaction) Rollback(ctx context.Context) error {
	if t.ended {
		return nil
	}
	t.ended = true
	err := t.tx.Rollback()
	if err == nil || errors.Is(err, sql.ErrTxDone) || t.fate.gone.Load() {
		t.free()
		return nil
	}
	t.db.cfg.Logger.WarnContext(ctx, "connection closed to roll back", "error", err)
	t.discard()
	return nil
}

// Outcome implements [txmsg.Transaction]: SQLite gives a transaction no name by which one could ask.
func (t *transaction) Outcome(context.Context) (txmsg.Outcome, error) { return txmsg.Unknown, nil }

// discard closes the connection instead of giving it back.
func (t *transaction) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	t.free()
}

func (t *transaction) free() {
	if t.tx != nil {
		t.db.live.Delete(t.tx)
	}
	t.writer.guard.fate.Store(nil)
	if t.conn != nil {
		_ = t.conn.Close()
	}
	if t.cancel != nil {
		t.cancel()
	}
	<-t.db.gate
}

// Exec implements [txmsg.Database].
func (db *DB) Exec(ctx context.Context, tx *sql.Tx, stmts ...txmsg.Statement) error {
	for _, stmt := range stmts {
		if _, err := tx.ExecContext(ctx, stmt.SQL, stmt.Args...); err != nil {
			return fmt.Errorf("sqlite: run statement: %w", err)
		}
	}
	return nil
}

// write runs fn in a transaction that a power cut may undo, though no end of the process: it does not wait for the disk.
// That is enough for leases, settlements and clean-up, which are done again then; the price is a copy of a message. An
// unclear commit is an error like any other here, for the same reason.
func (db *DB) write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.writeBy(ctx, &db.relaxed, fn)
}

// writeDurably is write for what must not be lost.
func (db *DB) writeDurably(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.writeBy(ctx, &db.writer, fn)
}

func (db *DB) writeBy(ctx context.Context, w *writer, fn func(tx *sql.Tx) error) error {
	t, err := db.begin(ctx, w, nil)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback(ctx) }() // a panic must not keep the gate; after Commit it does nothing
	if err := fn(t.tx); err != nil {
		return err
	}
	return t.Commit(ctx)
}

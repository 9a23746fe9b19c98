package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/txmsg"
)

// transaction is one local transaction on one connection of the pool.
type transaction struct {
	db        *DB
	conn      *pgxpool.Conn
	outer     *handle
	savepoint func() (rollback func())
	names     int // savepoints named so far; a name is never used twice

	tx     pgx.Tx // nil until BEGIN was sent
	server server
	id     transactionID
	doomed error // why it must not commit although the server would
	ended  atomic.Bool
}

// Tx implements [txmsg.Transaction].
func (t *transaction) Tx() pgx.Tx { return t.outer }

// Commit implements [txmsg.Transaction].
func (t *transaction) Commit(ctx context.Context, along ...txmsg.Statement) error {
	if t.ended.Swap(true) {
		return fmt.Errorf("postgres: commit: %w", pgx.ErrTxClosed)
	}
	if t.doomed != nil {
		t.abandon(ctx)
		return fmt.Errorf("postgres: %w: %w", txmsg.ErrRolledBack, t.doomed)
	}
	if t.tx == nil && len(along) == 0 {
		t.conn.Release()
		return nil
	}
	// What follows needs the transaction's id before COMMIT is sent.
	if err := t.start(ctx); err != nil {
		t.abandon(ctx)
		return fmt.Errorf("postgres: begin: %w", err)
	}
	if err := t.committable(); err != nil {
		t.abandon(ctx)
		return err
	}
	err := t.commit(ctx, along)
	if errors.Is(err, txmsg.ErrOutcomeUnknown) {
		t.destroy()
		return err
	}
	t.abandon(ctx)
	return err
}

// committable refuses before anything is sent: outside a transaction the statements written along would commit at once,
// and in an aborted one COMMIT would be answered with ROLLBACK.
func (t *transaction) committable() error {
	conn := t.conn.Conn()
	switch {
	case conn.IsClosed():
		return fmt.Errorf("postgres: connection was lost before commit: %w", txmsg.ErrRolledBack)
	case conn.PgConn().IsBusy():
		return fmt.Errorf("postgres: rows of the callback are still open: %w", txmsg.ErrRolledBack)
	}
	switch conn.PgConn().TxStatus() {
	case 'T':
		return nil
	case 'E':
		return fmt.Errorf("postgres: aborted by an earlier error that the callback swallowed: %w", txmsg.ErrRolledBack)
	default:
		return fmt.Errorf("postgres: ended by the callback: %w", txmsg.ErrRolledBack)
	}
}

// commit sends along and COMMIT together. They are one unit up to the protocol's Sync: after an error the server skips
// what follows.
func (t *transaction) commit(ctx context.Context, along []txmsg.Statement) error {
	batch := &pgx.Batch{}
	for _, stmt := range along {
		batch.Queue(stmt.SQL, stmt.Args...)
	}
	batch.Queue("commit")
	results := t.conn.SendBatch(ctx, batch)
	var err error
	for range along {
		if _, err = results.Exec(); err != nil {
			break
		}
	}
	tag := ""
	if err == nil {
		committed, failed := results.Exec()
		tag, err = committed.String(), failed
	}
	if closed := results.Close(); err == nil && tag == "" {
		err = closed
	}
	switch {
	case err != nil && t.open():
		return fmt.Errorf("postgres: commit: %w", err)
	case err != nil:
		return commitError(err)
	case tag != "COMMIT":
		return fmt.Errorf("postgres: commit was answered with %s: %w", tag, txmsg.ErrRolledBack)
	default:
		return nil
	}
}

// open reports whether the server has said last that the transaction is open, and owes no answer: then COMMIT either failed
// or was never sent.
func (t *transaction) open() bool {
	conn := t.conn.Conn()
	return !conn.IsClosed() && !conn.PgConn().IsBusy() && conn.PgConn().TxStatus() != 'I'
}

// Rollback implements [txmsg.Transaction].
func (t *transaction) Rollback(ctx context.Context) error {
	if !t.ended.Swap(true) {
		t.abandon(ctx)
	}
	return nil
}

// abandon rolls back what is still open and gives the connection back. One that cannot be rolled back is closed by the
// pool, and the server rolls back when it sees that.
func (t *transaction) abandon(ctx context.Context) {
	if t.open() {
		if _, err := t.conn.Exec(ctx, "rollback"); err != nil {
			t.db.logger.DebugContext(ctx, "rollback", "error", err)
		}
	}
	t.conn.Release()
}

// destroy closes the connection instead of giving it back: nobody knows what it is still to receive. It is taken out of
// the pool, which would hold its place until the server, which may be gone, has answered the goodbye.
func (t *transaction) destroy() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = t.conn.Hijack().Close(ctx) // the outcome is asked for elsewhere
}

// start sends BEGIN unless it was sent.
func (t *transaction) start(ctx context.Context) error {
	if t.tx != nil {
		return nil
	}
	results, err := t.send(ctx, nil)
	if err != nil {
		return err
	}
	return results.Close()
}

// send sends BEGIN, the question for the transaction's id, and statements in one round trip, and reads the answers to the
// first two. The results that it returns are those of statements.
func (t *transaction) send(ctx context.Context, statements []*pgx.QueuedQuery) (pgx.BatchResults, error) {
	batch := &pgx.Batch{}
	batch.BeginTx(t.db.begin)
	if t.db.idle == "" {
		batch.Queue(identifySQL)
	} else {
		batch.Queue(identifyAndBoundSQL, t.db.idle)
	}
	batch.QueuedQueries = append(batch.QueuedQueries, statements...)
	results := t.conn.SendBatch(ctx, batch)
	if _, err := results.Exec(); err != nil {
		_ = results.Close() // returns the same error
		return nil, err
	}
	t.tx = results.Tx()
	if err := results.QueryRow().Scan(&t.id.xid, &t.id.timeline); err != nil {
		_ = results.Close() // returns the same error
		return nil, err
	}
	return results, nil
}

// ride sends statements together with BEGIN. rode is false when none of them reached the server, so that the caller must
// start and run them by themselves: their preparation failed, which outside a transaction does not abort one.
func (t *transaction) ride(ctx context.Context, statements ...*pgx.QueuedQuery) (results pgx.BatchResults, rode bool, err error) {
	if speaksSimply(t.conn.Conn()) {
		return nil, false, nil
	}
	results, err = t.send(ctx, statements)
	if err != nil && t.tx == nil && !t.conn.Conn().IsClosed() && t.conn.Conn().PgConn().TxStatus() == 'I' {
		return nil, false, nil
	}
	if err != nil && t.tx == nil {
		t.doomed = fmt.Errorf("begin, with the first statement: %w", err)
	}
	return results, true, err
}

// speaksSimply reports whether a connection uses the simple protocol. It is noted: to ask pgx copies the whole configuration.
func speaksSimply(conn *pgx.Conn) bool {
	const key = "txmsg.simple"
	known := conn.PgConn().CustomData()
	simple, ok := known[key].(bool)
	if !ok {
		simple = conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
		known[key] = simple
	}
	return simple
}

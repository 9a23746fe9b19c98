package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// handle is the pgx.Tx that a callback gets, and each of its nested transactions.
type handle struct {
	t      *transaction
	name   string // of the savepoint; empty for the outermost
	undo   func() // forgets what was published since the savepoint
	closed bool
}

var _ pgx.Tx = (*handle)(nil)

var errNotYours = errors.New("postgres: the messenger commits and rolls back, not the callback")

// Begin marks a savepoint: what is published in the nested transaction is forgotten if that is rolled back.
func (h *handle) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := h.open(); err != nil {
		return nil, err
	}
	if err := h.t.start(ctx); err != nil {
		return nil, err
	}
	h.t.names++
	name := "txmsg_" + strconv.Itoa(h.t.names)
	if _, err := h.t.tx.Exec(ctx, "savepoint "+name); err != nil {
		return nil, err
	}
	return &handle{t: h.t, name: name, undo: h.t.savepoint()}, nil
}

// Commit releases the savepoint of a nested transaction. The outermost is not the callback's to commit.
func (h *handle) Commit(ctx context.Context) error {
	if err := h.open(); err != nil {
		return err
	}
	if h.name == "" {
		return errNotYours
	}
	h.closed = true
	_, err := h.t.tx.Exec(ctx, "release savepoint "+h.name)
	return err
}

// Rollback rolls a nested transaction back. The outermost is not the callback's to roll back: it returns an error.
func (h *handle) Rollback(ctx context.Context) error {
	if err := h.open(); err != nil {
		return err
	}
	if h.name == "" {
		return errNotYours
	}
	h.closed = true
	if _, err := h.t.tx.Exec(ctx, "rollback to savepoint "+h.name); err != nil {
		// The callback may believe that the nested work is gone; a commit would keep it.
		h.t.doomed = fmt.Errorf("roll back nested transaction: %w", err)
		return err
	}
	h.undo()
	return nil
}

func (h *handle) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := h.allow(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	if h.t.tx == nil && rideable(sql, args) {
		results, rode, err := h.t.ride(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
		if err != nil {
			return pgconn.CommandTag{}, err
		}
		if rode {
			tag, err := results.Exec()
			if closed := results.Close(); err == nil {
				err = closed
			}
			return tag, err
		}
	}
	if err := h.t.start(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return h.t.tx.Exec(ctx, sql, args...)
}

func (h *handle) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := h.allow(sql); err != nil {
		return failedRows{err}, err
	}
	if h.t.tx == nil && rideable(sql, args) {
		results, rode, err := h.t.ride(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
		if err != nil {
			return failedRows{err}, err
		}
		if rode {
			rows, err := results.Query()
			riding := &ridingRows{Rows: rows, results: results}
			if err != nil {
				riding.Close()
			}
			return riding, err
		}
	}
	if err := h.t.start(ctx); err != nil {
		return failedRows{err}, err
	}
	return h.t.tx.Query(ctx, sql, args...)
}

func (h *handle) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if h.t.tx != nil && h.allow(sql) == nil {
		return h.t.tx.QueryRow(ctx, sql, args...)
	}
	rows, _ := h.Query(ctx, sql, args...) // the rows carry the error
	return onlyRow{rows}
}

func (h *handle) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, query := range b.QueuedQueries {
		if err := h.allow(query.SQL); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
	}
	if err := h.open(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	if h.t.tx == nil && len(b.QueuedQueries) > 0 {
		results, rode, err := h.t.ride(ctx, b.QueuedQueries...)
		if err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		if rode {
			return results
		}
	}
	if err := h.t.start(ctx); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return h.t.tx.SendBatch(ctx, b)
}

func (h *handle) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	if err := h.open(); err != nil {
		return 0, err
	}
	if err := h.t.start(ctx); err != nil {
		return 0, err
	}
	return h.t.tx.CopyFrom(ctx, table, columns, source)
}

func (h *handle) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := h.allow(sql); err != nil {
		return nil, err
	}
	if err := h.t.start(ctx); err != nil {
		return nil, err
	}
	return h.t.tx.Prepare(ctx, name, sql)
}

// LargeObjects returns those of the transaction, or none that works after it has ended.
func (h *handle) LargeObjects() pgx.LargeObjects {
	if !h.begun() {
		return pgx.LargeObjects{}
	}
	return h.t.tx.LargeObjects()
}

// Conn returns the bare connection, inside the transaction. What is run on it is neither checked nor followed.
func (h *handle) Conn() *pgx.Conn {
	conn := h.t.conn.Conn()
	if !h.begun() {
		_ = conn.Close(context.Background()) // outside the transaction its statements would commit by themselves
	}
	return conn
}

// begun sends BEGIN for the methods that take no context.
func (h *handle) begun() bool {
	if h.open() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return h.t.start(ctx) == nil
}

func (h *handle) open() error {
	if h.closed || h.t.ended.Load() {
		return pgx.ErrTxClosed
	}
	return nil
}

func (h *handle) allow(sql string) error {
	if err := h.open(); err != nil {
		return err
	}
	if command := transactionControl(sql); command != "" {
		return fmt.Errorf("%w: %s is refused; tx.Begin makes a nested transaction", errNotYours, command)
	}
	return nil
}

// rideable reports whether a batch can carry the statement: it knows no options but a rewriter, no COPY, and not nothing.
func rideable(sql string, args []any) bool {
	if len(args) > 0 {
		switch args[0].(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return false
		}
	}
	sql = skipBlank(sql)
	word, _ := firstWord(sql)
	return sql != "" && !strings.EqualFold(word, "COPY")
}

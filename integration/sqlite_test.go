package integration

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

// openSQLite makes a file. Its commits are local calls, so none of them is unclear.
func openSQLite(t *testing.T) base[*sql.Tx] {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.db")
	direct := openFile(t, path, 0)
	require.NoError(t, direct.Migrate(context.Background()))
	_, err := direct.Pool().ExecContext(context.Background(), ordersSQL)
	require.NoError(t, err)
	owners := &sync.Map{}
	return base[*sql.Tx]{
		// The writer has a connection of its own however many there are.
		store: func(t *testing.T, _ int) localtable.Store[*sql.Tx] { return &owningStore{openFile(t, path, 0), owners} },
		write: func(ctx context.Context, tx *sql.Tx, id string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (?)", id)
			return err
		},
		rows: func(ctx context.Context) ([]string, error) { return ids(ctx, direct.Pool()) },
		nested: func(ctx context.Context, tx *sql.Tx, _ txmsg.Publisher, fn func(ctx context.Context, tx *sql.Tx) error) error {
			owner, _ := owners.Load(tx)
			return owner.(*sqlite.DB).Nested(ctx, tx, func(ctx context.Context) error { return fn(ctx, tx) })
		},
		hooks: txmsgtest.Hooks[*sql.Tx]{
			Conflict: busy(t, path),
			FailStatement: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO nowhere VALUES (1)")
				return err
			},
			FailCommit: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO orders (id, other) VALUES ('dangling', 'nowhere')")
				return err
			},
		},
	}
}

func openFile(t testing.TB, path string, busyTimeout time.Duration) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(context.Background(), path, sqlite.Config{BusyTimeout: busyTimeout, Pragmas: []string{"foreign_keys(ON)"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func ids(ctx context.Context, pool *sql.DB) (ids []string, err error) {
	rows, err := pool.QueryContext(ctx, "SELECT id FROM orders")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// busy returns what SQLite answers to a second writer that does not wait.
func busy(t *testing.T, path string) error {
	t.Helper()
	first, second := openFile(t, path, 0), openFile(t, path, time.Millisecond)
	holder, err := first.Begin(context.Background(), func() func() { return func() {} })
	require.NoError(t, err)
	defer func() { require.NoError(t, holder.Rollback(context.Background())) }()
	_, err = second.Begin(context.Background(), func() func() { return func() {} })
	require.True(t, second.Conflict(err), "a second writer met %v", err)
	return err
}

// owningStore remembers which messenger's database has begun a transaction.
type owningStore struct {
	*sqlite.DB
	owners *sync.Map
}

func (s *owningStore) Begin(ctx context.Context, savepoint func() func()) (txmsg.Transaction[*sql.Tx], error) {
	tx, err := s.DB.Begin(ctx, savepoint)
	if err == nil {
		s.owners.Store(tx.Tx(), s.DB)
	}
	return tx, err
}

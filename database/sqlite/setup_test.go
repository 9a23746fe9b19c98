package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// setup opens a file of the test's own, with the library's tables and one of a service's.
func setup(t testing.TB) *sqlite.DB {
	t.Helper()
	db := open(t, filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	require.NoError(t, db.Migrate(t.Context()))
	_, err := db.Pool().ExecContext(t.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY, UNIQUE (id) ON CONFLICT ROLLBACK)`)
	require.NoError(t, err)
	return db
}

func open(t testing.TB, path string, cfg sqlite.Config) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// begin begins a transaction that the test must end.
func begin(t testing.TB, db *sqlite.DB) txmsg.Transaction[*sql.Tx] {
	t.Helper()
	tx, err := db.Begin(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tx.Rollback(context.Background())) })
	return tx
}

// message returns the statement that writes a message.
func message(db *sqlite.DB, id string) []txmsg.Statement {
	return db.Insert([]localtable.Entry{{Destination: "test", Message: txmsg.Message{ID: id, Topic: "orders", Key: "k"}}})
}

func count(t testing.TB, db *sqlite.DB, table string) int {
	t.Helper()
	var n int
	require.NoError(t, db.Pool().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// attempt is the smallest attempt of the engine: its messages are written along with the commit.
type attempt struct {
	txmsg.Collector
	db *sqlite.DB
	tx txmsg.Transaction[*sql.Tx]
}

func (a *attempt) Prepare(context.Context) ([]txmsg.Statement, error) {
	var entries []localtable.Entry
	for _, m := range a.Messages() {
		entries = append(entries, localtable.Entry{Destination: "test", Message: m})
	}
	return a.db.Insert(entries), nil
}

func (a *attempt) Resolve(ctx context.Context) txmsg.Outcome {
	outcome, _ := a.tx.Outcome(ctx)
	return outcome
}

func (a *attempt) End(txmsg.Outcome) {}

func transact(ctx context.Context, db *sqlite.DB, fn func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error) error {
	start := func(tx txmsg.Transaction[*sql.Tx]) txmsg.Attempt { return &attempt{db: db, tx: tx} }
	return txmsg.Transact(ctx, db, txmsg.TransactConfig{Abilities: txmsg.Abilities{Order: true, Delay: true}}, start, fn)
}

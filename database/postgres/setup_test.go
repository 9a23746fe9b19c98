package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// bundle is a database of a test's own: a schema with the library's tables and a table of a service's.
type bundle struct {
	*postgres.DB
	pool *pgxpool.Pool
	dsn  string
}

func setup(t testing.TB) bundle {
	t.Helper()
	return setupAt(t, services.Schema(t, services.Postgres(t)), postgres.Config{})
}

func setupAt(t testing.TB, dsn string, cfg postgres.Config) bundle {
	t.Helper()
	b := open(t, dsn, cfg)
	require.NoError(t, b.Migrate(t.Context()))
	b.exec(t, `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, state text NOT NULL DEFAULT 'new')`)
	return b
}

// open connects without creating anything.
func open(t testing.TB, dsn string, cfg postgres.Config, change ...func(*pgxpool.Config)) bundle {
	t.Helper()
	poolConfig, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	poolConfig.MaxConns = 16
	for _, f := range change {
		f(poolConfig)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), poolConfig)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db, err := postgres.New(pool, cfg)
	require.NoError(t, err)
	return bundle{DB: db, pool: pool, dsn: dsn}
}

func (b bundle) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (b bundle) count(t testing.TB, table string) int {
	t.Helper()
	return query[int](t, b, "SELECT count(*) FROM "+table)
}

func query[T any](t testing.TB, b bundle, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

// begin begins a transaction that is rolled back when t ends.
func (b bundle) begin(t testing.TB) txmsg.Transaction[pgx.Tx] {
	t.Helper()
	tx, err := b.Begin(t.Context(), func() func() { return func() {} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tx.Rollback(context.Background())) })
	return tx
}

// requireIdle requires that no connection of the pool is in use.
func (b bundle) requireIdle(t testing.TB) {
	t.Helper()
	require.Zero(t, b.pool.Stat().AcquiredConns(), "a connection leaked")
}

// message returns the statements that write a message.
func (b bundle) message(ids ...string) []txmsg.Statement {
	var entries []localtable.Entry
	for _, id := range ids {
		entries = append(entries, localtable.Entry{Destination: "test", Message: txmsg.Message{ID: id, Topic: "orders", Key: "k"}})
	}
	return b.Insert(entries)
}

// attempt is the smallest attempt of the engine: its messages are written along with the commit.
type attempt struct {
	txmsg.Collector
	b  bundle
	tx txmsg.Transaction[pgx.Tx]
}

func (a *attempt) Prepare(context.Context) ([]txmsg.Statement, error) {
	var entries []localtable.Entry
	for _, m := range a.Messages() {
		entries = append(entries, localtable.Entry{Destination: "test", Message: m})
	}
	return a.b.Insert(entries), nil
}

func (a *attempt) Resolve(ctx context.Context) txmsg.Outcome {
	outcome, _ := a.tx.Outcome(ctx)
	return outcome
}

func (a *attempt) End(txmsg.Outcome) {}

func (b bundle) transact(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error) error {
	start := func(tx txmsg.Transaction[pgx.Tx]) txmsg.Attempt { return &attempt{b: b, tx: tx} }
	return txmsg.Transact(ctx, b.DB, txmsg.TransactConfig{Abilities: txmsg.Abilities{Order: true, Delay: true}}, start, fn)
}

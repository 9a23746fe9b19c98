package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestCommit(t *testing.T) {
	t.Run("writes what goes along", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		order(t, tx, "1")
		require.NoError(t, tx.Commit(t.Context(), b.message("a", "b")...))
		require.Equal(t, 1, b.count(t, "orders"))
		require.Equal(t, 2, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})

	t.Run("of nothing needs no transaction, and of messages alone does", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, b.begin(t).Commit(t.Context()))
		require.NoError(t, b.begin(t).Commit(t.Context(), b.message("a")...))
		require.Equal(t, 1, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})

	t.Run("an INSERT that fails stops the COMMIT", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `INSERT INTO orders (id) VALUES ('taken')`)
		tx := b.begin(t)
		order(t, tx, "1")
		along := append(b.message("a"), txmsg.Statement{SQL: `INSERT INTO orders (id) VALUES ($1)`, Args: []any{"taken"}})
		err := tx.Commit(t.Context(), append(along, b.message("b")...)...)
		require.Error(t, err)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		require.Equal(t, 1, b.count(t, "orders"))
		require.Zero(t, b.count(t, "txmsg_ready"))
		require.Equal(t, txmsg.RolledBack, outcome(t, tx))
		b.requireIdle(t)
	})

	t.Run("a constraint that fails at COMMIT is a rollback", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `ALTER TABLE orders ADD UNIQUE (state) DEFERRABLE INITIALLY DEFERRED`)
		tx := b.begin(t)
		order(t, tx, "1")
		order(t, tx, "2")
		err := tx.Commit(t.Context(), b.message("a")...)
		require.Error(t, err)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		require.Zero(t, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})

	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run("a statement that cannot be prepared or encoded is a rollback: "+mode.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b = open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			for _, along := range []txmsg.Statement{
				{SQL: `INSERT INTO nowhere VALUES (1)`},
				{SQL: `INSERT INTO orders (id) VALUES ($1)`, Args: []any{make(chan int)}},
			} {
				tx := b.begin(t)
				order(t, tx, "1")
				err := tx.Commit(t.Context(), along)
				require.Error(t, err)
				require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
				require.Zero(t, b.count(t, "orders"))
			}
			b.requireIdle(t)
		})
	}

	t.Run("an error that the callback swallowed is ErrRolledBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			_, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ('1')`)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, `SELECT 1/0`)
			require.Error(t, err)
			return out.Publish(ctx, txmsg.Message{Topic: "orders"})
		})
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		require.Zero(t, b.count(t, "txmsg_ready"))
		require.Zero(t, b.count(t, "orders"))
		b.requireIdle(t)
	})

	t.Run("a transaction ended behind our back is ErrRolledBack, and nothing goes along", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			_, err := tx.Conn().Exec(ctx, `COMMIT`)
			require.NoError(t, err)
			return out.Publish(ctx, txmsg.Message{Topic: "orders"})
		})
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		require.Zero(t, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})

	t.Run("rows that are still open are ErrRolledBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			rows, err := tx.Query(ctx, `SELECT generate_series(1, 10)`)
			require.NoError(t, err)
			require.True(t, rows.Next())
			return out.Publish(ctx, txmsg.Message{Topic: "orders"})
		})
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		require.Zero(t, b.count(t, "txmsg_ready"))
		require.Eventually(t, func() bool { return b.pool.Stat().AcquiredConns() == 0 }, 10*time.Second, time.Millisecond)
	})

	t.Run("a session that waited too long for its callback is gone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b = open(t, b.dsn, postgres.Config{IdleTimeout: 50 * time.Millisecond})
		tx := b.begin(t)
		var pid int
		require.NoError(t, tx.Tx().QueryRow(t.Context(), `INSERT INTO orders (id) VALUES ('1') RETURNING pg_backend_pid()`).Scan(&pid))
		require.Eventually(t, func() bool {
			return query[int](t, b, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, pid) == 0
		}, 10*time.Second, 10*time.Millisecond)
		require.Error(t, tx.Commit(t.Context(), b.message("a")...))
		require.Zero(t, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})

	t.Run("twice is an error", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		require.NoError(t, tx.Commit(t.Context(), b.message("a")...))
		require.ErrorIs(t, tx.Commit(t.Context(), b.message("b")...), pgx.ErrTxClosed)
		require.Equal(t, 1, b.count(t, "txmsg_ready"))
	})
}

func TestConnections(t *testing.T) {
	t.Run("C13 twenty transactions share a pool of two", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b = open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 2 })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		errs := make(chan error, 20)
		for i := range cap(errs) {
			go func() {
				errs <- b.transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
					if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, fmt.Sprint(i)); err != nil {
						return err
					}
					return out.Publish(ctx, txmsg.Message{Topic: "orders"})
				})
			}()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.Equal(t, 20, b.count(t, "orders"))
		require.Equal(t, 20, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})

	t.Run("none leaks on the ways a run can end", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b = open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 1 })
		mine := errors.New("mine")
		ended, cancel := context.WithCancel(t.Context())
		for _, end := range []func(tx pgx.Tx) error{
			func(pgx.Tx) error { return mine },
			func(pgx.Tx) error { panic(mine) },
			func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), `SELECT 1/0`); return err },
			func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), `nonsense`); return err },
			func(tx pgx.Tx) error { _, _ = tx.Exec(t.Context(), `SELECT 1`); return mine },
			func(tx pgx.Tx) error { _, _ = tx.Query(t.Context(), `SELECT generate_series(1, 9)`); return mine },
			func(tx pgx.Tx) error { _, _ = tx.Begin(t.Context()); return mine },
			func(tx pgx.Tx) error { _ = tx.Conn().Close(t.Context()); return nil },
			func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), `SELECT 1`); cancel(); return err },
		} {
			err := recovered(func() error {
				return b.transact(ended, func(_ context.Context, tx pgx.Tx, _ txmsg.Publisher) error { return end(tx) })
			})
			require.Error(t, err)
			require.Eventually(t, func() bool { return b.pool.Stat().AcquiredConns() == 0 }, 10*time.Second, time.Millisecond)
		}
		_, err := b.Begin(ended, func() func() { return nil })
		require.Error(t, err)
		require.NoError(t, b.pool.Ping(t.Context()), "the only connection is free")
	})

	t.Run("C15 a serialization failure runs again without the messages of the first run", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b = open(t, b.dsn, postgres.Config{Isolation: pgx.Serializable})
		b.exec(t, `CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)`)
		b.exec(t, `INSERT INTO account VALUES (1, 0)`)
		var runs atomic.Int32
		var both sync.WaitGroup
		both.Add(2)
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				first := true
				errs <- b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
					runs.Add(1)
					var balance int
					if err := tx.QueryRow(ctx, `SELECT balance FROM account WHERE id = 1`).Scan(&balance); err != nil {
						return err
					}
					if first { // both have read before one writes
						first = false
						both.Done()
						both.Wait()
					}
					if err := out.Publish(ctx, txmsg.Message{Topic: "account"}); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, `UPDATE account SET balance = $1 WHERE id = 1`, balance+10)
					return err
				})
			}()
		}
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		require.Greater(t, runs.Load(), int32(2), "nothing had to run again")
		require.Equal(t, 20, query[int](t, b, `SELECT balance FROM account`))
		require.Equal(t, 2, query[int](t, b, `SELECT count(DISTINCT id) FROM txmsg_ready`))
		require.Equal(t, 2, b.count(t, "txmsg_ready"))
		b.requireIdle(t)
	})
}

// recovered returns a panic of f as its error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

func TestConfig(t *testing.T) {
	_, err := postgres.New(nil, postgres.Config{})
	require.Error(t, err)
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	require.NoError(t, err)
	defer pool.Close()
	_, err = postgres.New(pool, postgres.Config{})
	require.NoError(t, err, "it connects to nothing")
	_, err = postgres.New(pool, postgres.Config{Isolation: "chaos", IdleTimeout: time.Microsecond, Schema: "a\x00b"})
	require.ErrorContains(t, err, `Config.Isolation must be one of ["read committed" "repeatable read" "serializable"], got "chaos"`)
	require.ErrorContains(t, err, "Config.IdleTimeout must be at least 1ms, got 1µs")
	require.ErrorContains(t, err, "Config.Schema")
}

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// published returns the bodies of the messages that are in the table, in the order of writing.
func (b bundle) published(t testing.TB) []string {
	t.Helper()
	return query[[]string](t, b, `SELECT coalesce(array_agg(convert_from(body, 'UTF8') ORDER BY seq), '{}') FROM txmsg_ready`)
}

func TestNestedTransactions(t *testing.T) {
	publish := func(t *testing.T, out txmsg.Publisher, body string) {
		require.NoError(t, out.Publish(t.Context(), txmsg.Message{Topic: "orders", Body: []byte(body)}))
	}
	write := func(t *testing.T, tx pgx.Tx, id string) {
		_, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1)`, id)
		require.NoError(t, err)
	}

	t.Run("what was published in one that is rolled back is not sent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		mine := errors.New("mine")
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			publish(t, out, "before")
			err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
				write(t, nested, "lost")
				publish(t, out, "lost")
				return mine
			})
			require.ErrorIs(t, err, mine)
			err = pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
				write(t, nested, "kept")
				publish(t, out, "kept")
				return nil
			})
			require.NoError(t, err)
			publish(t, out, "after")
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"before", "kept", "after"}, b.published(t))
		require.Equal(t, []string{"kept"}, query[[]string](t, b, `SELECT array_agg(id) FROM orders`))
	})

	t.Run("the outer decides about the inner", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			outer, err := tx.Begin(ctx)
			require.NoError(t, err)
			inner, err := outer.Begin(ctx)
			require.NoError(t, err)
			write(t, inner, "inner")
			publish(t, out, "inner")
			require.NoError(t, inner.Commit(ctx))
			require.NoError(t, outer.Rollback(ctx))
			publish(t, out, "after")
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"after"}, b.published(t))
		require.Zero(t, b.count(t, "orders"))
	})

	t.Run("an error inside one is undone with it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			write(t, tx, "1")
			err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
				publish(t, out, "lost")
				_, err := nested.Exec(ctx, `INSERT INTO orders (id) VALUES ('1')`)
				return err
			})
			require.Error(t, err)
			publish(t, out, "kept")
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"kept"}, b.published(t))
	})

	t.Run("one that is closed is closed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, _ txmsg.Publisher) error {
			nested, err := tx.Begin(ctx)
			require.NoError(t, err)
			require.NoError(t, nested.Commit(ctx))
			require.ErrorIs(t, nested.Rollback(ctx), pgx.ErrTxClosed)
			require.ErrorIs(t, nested.Commit(ctx), pgx.ErrTxClosed)
			_, err = nested.Exec(ctx, `SELECT 1`)
			require.ErrorIs(t, err, pgx.ErrTxClosed)
			return nil
		})
		require.NoError(t, err)
	})

	t.Run("a rollback that did not happen keeps the whole from committing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			nested, err := tx.Begin(ctx)
			require.NoError(t, err)
			write(t, nested, "1")
			publish(t, out, "1")
			ended, cancel := context.WithCancel(ctx)
			cancel()
			require.Error(t, nested.Rollback(ended))
			return nil
		})
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		require.Empty(t, b.published(t))
		require.Zero(t, b.count(t, "orders"))
		b.requireIdle(t)
	})
}

func TestHandle(t *testing.T) {
	t.Run("the callback neither commits nor rolls back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			require.Error(t, tx.Commit(ctx))
			require.Error(t, tx.Rollback(ctx))
			for _, sql := range []string{"COMMIT", "begin", "ROLLBACK", "SAVEPOINT s", "SELECT 1; COMMIT", "PREPARE TRANSACTION 'x'"} {
				_, err := tx.Exec(ctx, sql)
				require.ErrorContains(t, err, "tx.Begin", sql)
				_, err = tx.Query(ctx, sql)
				require.ErrorContains(t, err, "tx.Begin", sql)
				require.ErrorContains(t, tx.QueryRow(ctx, sql).Scan(new(int)), "tx.Begin", sql)
				batch := &pgx.Batch{}
				batch.Queue(`SELECT 1`)
				batch.Queue(sql)
				require.ErrorContains(t, tx.SendBatch(ctx, batch).Close(), "tx.Begin", sql)
				_, err = tx.Prepare(ctx, "q", sql)
				require.ErrorContains(t, err, "tx.Begin", sql)
			}
			batch := &pgx.Batch{}
			batch.BeginTx(pgx.TxOptions{})
			require.Error(t, tx.SendBatch(ctx, batch).Close())
			_, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ('1')`)
			require.NoError(t, err, "a refusal does not abort the transaction")
			return out.Publish(ctx, txmsg.Message{Topic: "orders"})
		})
		require.NoError(t, err)
		require.Equal(t, 1, b.count(t, "orders"))
	})

	t.Run("is closed when the callback has returned", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var kept pgx.Tx
		require.NoError(t, b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, _ txmsg.Publisher) error {
			kept = tx
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		}))
		ctx := t.Context()
		_, err := kept.Exec(ctx, `INSERT INTO orders (id) VALUES ('ghost')`)
		require.ErrorIs(t, err, pgx.ErrTxClosed)
		_, err = kept.Begin(ctx)
		require.ErrorIs(t, err, pgx.ErrTxClosed)
		_, err = kept.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id"}, pgx.CopyFromRows([][]any{{"ghost"}}))
		require.ErrorIs(t, err, pgx.ErrTxClosed)
		require.ErrorIs(t, kept.SendBatch(ctx, &pgx.Batch{}).Close(), pgx.ErrTxClosed)
		require.Zero(t, b.count(t, "orders"))
	})

	// BEGIN travels with the first statement, whatever that is.
	for name, first := range map[string]func(t *testing.T, tx pgx.Tx){
		"Exec": func(t *testing.T, tx pgx.Tx) {
			tag, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2)`, "1", "2")
			require.NoError(t, err)
			require.EqualValues(t, 2, tag.RowsAffected())
		},
		"Exec with named arguments": func(t *testing.T, tx pgx.Tx) {
			_, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES (@a), (@b)`, pgx.NamedArgs{"a": "1", "b": "2"})
			require.NoError(t, err)
		},
		"Exec with options": func(t *testing.T, tx pgx.Tx) {
			_, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2)`, pgx.QueryExecModeSimpleProtocol, "1", "2")
			require.NoError(t, err)
		},
		"Exec of several": func(t *testing.T, tx pgx.Tx) {
			_, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ('1'); INSERT INTO orders (id) VALUES ('2')`)
			require.NoError(t, err)
		},
		"Query": func(t *testing.T, tx pgx.Tx) {
			rows, err := tx.Query(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2) RETURNING id`, "1", "2")
			require.NoError(t, err)
			ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.Equal(t, []string{"1", "2"}, ids)
		},
		"Query that is closed early": func(t *testing.T, tx pgx.Tx) {
			rows, err := tx.Query(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2) RETURNING id`, "1", "2")
			require.NoError(t, err)
			require.True(t, rows.Next())
			rows.Close()
			require.NoError(t, rows.Err())
			require.EqualValues(t, 2, rows.CommandTag().RowsAffected())
		},
		"QueryRow": func(t *testing.T, tx pgx.Tx) {
			var id string
			require.NoError(t, tx.QueryRow(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2) RETURNING id`, "1", "2").Scan(&id))
			require.Equal(t, "1", id)
		},
		"QueryRow without a row": func(t *testing.T, tx pgx.Tx) {
			require.ErrorIs(t, tx.QueryRow(t.Context(), `SELECT id FROM orders`).Scan(new(string)), pgx.ErrNoRows)
			_, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2)`, "1", "2")
			require.NoError(t, err)
		},
		"SendBatch": func(t *testing.T, tx pgx.Tx) {
			batch := &pgx.Batch{}
			batch.Queue(`INSERT INTO orders (id) VALUES ($1)`, "1")
			count := 0
			batch.Queue(`SELECT count(*) FROM orders`).QueryRow(func(row pgx.Row) error { return row.Scan(&count) })
			batch.Queue(`INSERT INTO orders (id) VALUES ($1)`, "2")
			require.NoError(t, tx.SendBatch(t.Context(), batch).Close())
			require.Equal(t, 1, count)
		},
		"CopyFrom": func(t *testing.T, tx pgx.Tx) {
			n, err := tx.CopyFrom(t.Context(), pgx.Identifier{"orders"}, []string{"id"}, pgx.CopyFromRows([][]any{{"1"}, {"2"}}))
			require.NoError(t, err)
			require.EqualValues(t, 2, n)
		},
		"Prepare": func(t *testing.T, tx pgx.Tx) {
			_, err := tx.Prepare(t.Context(), "write", `INSERT INTO orders (id) VALUES ($1), ($2)`)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "write", "1", "2")
			require.NoError(t, err)
		},
		"LargeObjects": func(t *testing.T, tx pgx.Tx) {
			large := tx.LargeObjects()
			id, err := large.Create(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, large.Unlink(t.Context(), id))
			_, err = tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2)`, "1", "2")
			require.NoError(t, err)
		},
		"Conn": func(t *testing.T, tx pgx.Tx) {
			_, err := tx.Conn().Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1), ($2)`, "1", "2")
			require.NoError(t, err)
		},
	} {
		t.Run(name+" comes first", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			rolled := b.begin(t)
			first(t, rolled.Tx())
			require.NoError(t, rolled.Rollback(t.Context()))
			require.Zero(t, b.count(t, "orders"), "it ran outside the transaction")

			committed := b.begin(t)
			first(t, committed.Tx())
			require.NoError(t, committed.Commit(t.Context(), b.message("m")...))
			require.Equal(t, 2, b.count(t, "orders"))
			require.Equal(t, 1, b.count(t, "txmsg_ready"))
			b.requireIdle(t)
		})
	}

	t.Run("a first statement that is wrong aborts the transaction, as a later one does", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, sql := range []string{`nonsense`, `SELECT * FROM nowhere`, `SELECT 1/0`} {
			for _, run := range []func(tx pgx.Tx) error{
				func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), sql); return err },
				func(tx pgx.Tx) error { return tx.QueryRow(t.Context(), sql).Scan(new(int)) },
				func(tx pgx.Tx) error {
					batch := &pgx.Batch{}
					batch.Queue(sql)
					return tx.SendBatch(t.Context(), batch).Close()
				},
			} {
				tx := b.begin(t)
				require.Error(t, run(tx.Tx()), sql)
				require.ErrorIs(t, tx.Commit(t.Context(), b.message("m")...), txmsg.ErrRolledBack, sql)
				b.requireIdle(t)
			}
		}
		require.Zero(t, b.count(t, "txmsg_ready"))
	})

	t.Run("a first statement that cannot be sent is named by the commit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		_, err := tx.Tx().Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1)`, "1", "too many")
		require.Error(t, err)
		err = tx.Commit(t.Context(), b.message("m")...)
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		require.ErrorContains(t, err, "argument count")
		require.Eventually(t, func() bool { return b.pool.Stat().AcquiredConns() == 0 }, 10*time.Second, time.Millisecond, "a connection leaked")
		require.Zero(t, b.count(t, "txmsg_ready"))
	})

	t.Run("a first statement may be empty", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tx := b.begin(t)
		for _, sql := range []string{"", " -- nothing"} {
			_, err := tx.Tx().Exec(t.Context(), sql)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit(t.Context(), b.message("m")...))
		require.Equal(t, 1, b.count(t, "txmsg_ready"))
	})
}

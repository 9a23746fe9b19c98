package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/txmsg"
)

var errUndo = errors.New("undo")

func TestNested(t *testing.T) {
	t.Parallel()

	// place writes an order and publishes a message of the same name.
	place := func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher, id string) error {
		if _, err := tx.ExecContext(ctx, insertOrder, id); err != nil {
			return err
		}
		return out.Publish(ctx, txmsg.Message{ID: id, Topic: "orders"})
	}

	t.Run("keeps what it did", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.NoError(t, transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			return db.Nested(ctx, tx, func(ctx context.Context) error { return place(ctx, tx, out, "1") })
		}))
		requireSame(t, db, "1")
	})

	t.Run("a rollback forgets rows and messages, and only its own", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.NoError(t, transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			require.NoError(t, place(ctx, tx, out, "1"))
			err := db.Nested(ctx, tx, func(ctx context.Context) error {
				require.NoError(t, place(ctx, tx, out, "2"))
				require.NoError(t, db.Nested(ctx, tx, func(ctx context.Context) error { return place(ctx, tx, out, "3") }))
				return errUndo
			})
			require.ErrorIs(t, err, errUndo)
			require.NoError(t, db.Nested(ctx, tx, func(ctx context.Context) error {
				require.NoError(t, place(ctx, tx, out, "4"))
				require.ErrorIs(t, db.Nested(ctx, tx, func(ctx context.Context) error {
					require.NoError(t, place(ctx, tx, out, "5"))
					return errUndo
				}), errUndo)
				return place(ctx, tx, out, "6")
			}))
			return place(ctx, tx, out, "7")
		}))
		requireSame(t, db, "1", "4", "6", "7")
	})

	t.Run("a panic that the callback recovers undoes it", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.NoError(t, transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			require.PanicsWithValue(t, "boom", func() {
				_ = db.Nested(ctx, tx, func(ctx context.Context) error {
					require.NoError(t, place(ctx, tx, out, "1"))
					panic("boom")
				})
			})
			return place(ctx, tx, out, "2")
		}))
		requireSame(t, db, "2")
	})

	t.Run("a panic that nobody recovers rolls everything back", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.PanicsWithValue(t, "boom", func() {
			_ = transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
				return db.Nested(ctx, tx, func(ctx context.Context) error {
					require.NoError(t, place(ctx, tx, out, "1"))
					panic("boom")
				})
			})
		})
		requireSame(t, db)
		require.NoError(t, begin(t, db).Commit(t.Context()), "the next transaction")
	})

	t.Run("its own context may end", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.NoError(t, transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			inner, cancel := context.WithCancel(ctx)
			err := db.Nested(inner, tx, func(ctx context.Context) error {
				require.NoError(t, place(ctx, tx, out, "1"))
				cancel()
				return ctx.Err()
			})
			require.ErrorIs(t, err, context.Canceled)
			return place(ctx, tx, out, "2")
		}))
		requireSame(t, db, "2")
	})

	t.Run("says when all of the transaction is lost", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		err := transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			require.NoError(t, place(ctx, tx, out, "1"))
			err := db.Nested(ctx, tx, func(ctx context.Context) error {
				_ = place(ctx, tx, out, "1") // the order's ON CONFLICT ROLLBACK
				return nil
			})
			require.ErrorIs(t, err, txmsg.ErrRolledBack)
			require.ErrorIs(t, db.Nested(ctx, tx, func(context.Context) error { return nil }), txmsg.ErrRolledBack)
			return nil
		})
		require.ErrorIs(t, err, txmsg.ErrRolledBack)
		requireSame(t, db)
	})

	t.Run("savepoints that are not followed are refused", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.NoError(t, transact(t.Context(), db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			require.Error(t, statement(`SAVEPOINT mine`)(ctx, tx))
			require.Error(t, db.Nested(ctx, tx, func(ctx context.Context) error {
				require.NoError(t, place(ctx, tx, out, "1"))
				return statement(`ROLLBACK TO txmsg_1`)(ctx, tx)
			}))
			return place(ctx, tx, out, "2")
		}))
		requireSame(t, db, "2")
		elsewhere, err := db.Pool().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, statement(`SAVEPOINT mine`, `RELEASE mine`)(t.Context(), elsewhere))
		require.NoError(t, elsewhere.Rollback())
	})

	t.Run("is refused for a transaction of somebody else or one that has ended", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		require.NoError(t, tx.Commit(t.Context()))
		run := func(context.Context) error { panic("must not run") }
		require.Error(t, db.Nested(t.Context(), tx.Tx(), run))
		foreign, err := db.Pool().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, foreign.Rollback()) }()
		require.Error(t, db.Nested(t.Context(), foreign, run))
	})
}

// requireSame says that the orders and the messages in the file are exactly ids.
func requireSame(t testing.TB, db *sqlite.DB, ids ...string) {
	t.Helper()
	for _, query := range []string{`SELECT id FROM orders ORDER BY rowid`, `SELECT id FROM txmsg_message ORDER BY seq`} {
		rows, err := db.Pool().Query(query)
		require.NoError(t, err)
		var found []string
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			found = append(found, id)
		}
		require.NoError(t, errors.Join(rows.Err(), rows.Close()))
		require.Equal(t, ids, found, query)
	}
}

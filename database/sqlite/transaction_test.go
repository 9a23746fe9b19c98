package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/txmsg"
)

const insertOrder = `INSERT INTO orders (id) VALUES (?)`

func TestCommit(t *testing.T) {
	t.Parallel()

	t.Run("writes what is along", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		_, err := tx.Tx().Exec(insertOrder, "1")
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context(), message(db, "m")...))
		require.Equal(t, []int{1, 1}, both(t, db))
	})

	t.Run("C44 the body is bytes", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		bodies := []string{`{"a":"x\u0000y"}`, "\\u0000", "\x00", "", "\xff\xfe", `{"a":"x` + "\x00" + `y"}`}
		require.NoError(t, transact(t.Context(), db, func(ctx context.Context, _ *sql.Tx, out txmsg.Publisher) error {
			for _, body := range bodies {
				if err := out.Publish(ctx, txmsg.Message{Topic: "orders", Body: []byte(body)}); err != nil {
					return err
				}
			}
			return nil
		}))
		lease, err := db.Lease(t.Context(), "me", time.Minute)
		require.NoError(t, err)
		rows, err := db.Read(t.Context(), "test", lease.Lanes, 10)
		require.NoError(t, err)
		require.Len(t, rows, len(bodies))
		for i, row := range rows {
			require.NotNil(t, row.Message.Body)
			require.Equal(t, bodies[i], string(row.Message.Body))
		}
	})

	t.Run("does not mind rows that the callback left open", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		_, err := tx.Tx().Exec(insertOrder+`, ('2'), ('3')`, "1")
		require.NoError(t, err)
		rows, err := tx.Tx().Query(`SELECT id FROM orders`)
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.NoError(t, tx.Commit(t.Context(), message(db, "m")...))
		require.NoError(t, rows.Close())
		require.Equal(t, []int{3, 1}, both(t, db))
		require.NoError(t, begin(t, db).Commit(t.Context()), "the next transaction")
	})

	t.Run("rolls back when what is along fails", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		_, err := tx.Tx().Exec(insertOrder, "1")
		require.NoError(t, err)
		err = tx.Commit(t.Context(), txmsg.Statement{SQL: `INSERT INTO nowhere VALUES (1)`})
		require.Error(t, err)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		require.Equal(t, []int{0, 0}, both(t, db))
	})

	t.Run("rolls back when a deferred constraint fails", func(t *testing.T) {
		t.Parallel()
		db := open(t, filepath.Join(t.TempDir(), "test.db"), sqlite.Config{Pragmas: []string{"foreign_keys(ON)"}})
		_, err := db.Pool().Exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY);
			CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
		require.NoError(t, err)
		tx := begin(t, db)
		_, err = tx.Tx().Exec(`INSERT INTO child VALUES (7)`)
		require.NoError(t, err)
		require.ErrorIs(t, tx.Commit(t.Context()), txmsg.ErrRolledBack)
		require.Zero(t, count(t, db, "child"))
		require.NoError(t, begin(t, db).Commit(t.Context()), "the next transaction")
	})

	t.Run("is done when its context ended before", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := db.Begin(ctx, nil)
		require.NoError(t, err)
		_, err = tx.Tx().Exec(insertOrder, "1")
		require.NoError(t, err)
		cancel()
		require.NoError(t, tx.Commit(context.WithoutCancel(ctx), message(db, "m")...))
		require.Equal(t, []int{1, 1}, both(t, db))
	})

	t.Run("writes nothing after its own time-out", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		_, err := tx.Tx().Exec(insertOrder, "1")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = tx.Commit(ctx, message(db, "m")...)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
		require.Equal(t, []int{0, 0}, both(t, db))
	})

	t.Run("is refused after a rollback", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, tx.Rollback(t.Context()))
		require.ErrorIs(t, tx.Commit(t.Context(), message(db, "m")...), txmsg.ErrRolledBack)
		require.Equal(t, []int{0, 0}, both(t, db))
	})
}

// A transaction that is not there any more must neither commit in part nor take the messages with it.
func TestLostTransaction(t *testing.T) {
	t.Parallel()
	lose := map[string]func(ctx context.Context, tx *sql.Tx) error{
		"commit of the driver":        func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		"rollback of the driver":      func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		"COMMIT":                      statement(`COMMIT`),
		"END":                         statement(`END TRANSACTION`),
		"COMMIT in a list":            statement(`INSERT INTO orders (id) VALUES ('4'); COMMIT; BEGIN IMMEDIATE`),
		"COMMIT and BEGIN":            statement(`COMMIT`, `BEGIN IMMEDIATE`),
		"ROLLBACK":                    statement(`ROLLBACK`),
		"ROLLBACK and BEGIN":          statement(`ROLLBACK`, `BEGIN IMMEDIATE`),
		"ON CONFLICT ROLLBACK":        statement(`INSERT INTO orders (id) VALUES ('1')`),
		"OR ROLLBACK":                 statement(`INSERT OR ROLLBACK INTO orders (id) VALUES (NULL), ('1')`),
		"a full disk":                 statement(`PRAGMA max_page_count = 1`, `INSERT INTO orders (id) VALUES (hex(zeroblob(100000)))`, `PRAGMA max_page_count = 1000000`),
		"a statement that is stopped": interrupted,
	}
	for name, act := range lose {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := setup(t)
			tx := begin(t, db)
			_, err := tx.Tx().Exec(insertOrder, "1")
			require.NoError(t, err)
			_ = act(t.Context(), tx.Tx()) // the callback swallows what it met
			_, _ = tx.Tx().Exec(insertOrder, "2")
			require.Equal(t, []int{0, 0}, both(t, db), "before the commit")

			err = tx.Commit(t.Context(), message(db, "m")...)
			require.ErrorIs(t, err, txmsg.ErrRolledBack)
			require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
			require.Equal(t, []int{0, 0}, both(t, db), "after the commit")

			next := begin(t, db)
			_, err = next.Tx().Exec(insertOrder, "1")
			require.NoError(t, err)
			require.NoError(t, next.Commit(t.Context(), message(db, "m")...))
			require.Equal(t, []int{1, 1}, both(t, db))
		})
	}
}

func statement(texts ...string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		var failed error
		for _, text := range texts {
			_, err := tx.ExecContext(ctx, text)
			failed = errors.Join(failed, err)
		}
		return failed
	}
}

// interrupted ends a long INSERT by its context, which takes the whole transaction with it.
func interrupted(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := tx.ExecContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
		INSERT INTO orders (id) SELECT 'n' || i FROM n`)
	return err
}

func both(t testing.TB, db *sqlite.DB) []int {
	t.Helper()
	return []int{count(t, db, "orders"), count(t, db, "txmsg_message")}
}

func TestBegin(t *testing.T) {
	t.Parallel()

	t.Run("respects its context while it waits for its turn", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		begin(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := db.Begin(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})

	t.Run("respects its context while it waits for another process", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		db, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
		held := begin(t, other)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := db.Begin(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, held.Rollback(t.Context()))
		require.NoError(t, begin(t, db).Commit(t.Context()))
	})

	t.Run("is a conflict when another process keeps the lock", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		db, other := open(t, path, sqlite.Config{BusyTimeout: 20 * time.Millisecond}), open(t, path, sqlite.Config{})
		begin(t, other)
		_, err := db.Begin(t.Context(), nil)
		require.Error(t, err)
		require.True(t, db.Conflict(err), "%v", err)
	})

	t.Run("waits for another process", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		db, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
		held := begin(t, other)
		begun := make(chan error, 1)
		go func() {
			tx, err := db.Begin(context.Background(), nil)
			if err == nil {
				err = tx.Rollback(context.Background())
			}
			begun <- err
		}()
		require.NoError(t, held.Commit(t.Context()))
		require.NoError(t, <-begun)
	})

	t.Run("an upgrade in the middle cannot fail", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		tx := begin(t, db)
		var n int
		require.NoError(t, tx.Tx().QueryRow(`SELECT count(*) FROM orders`).Scan(&n))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := db.Pool().ExecContext(ctx, insertOrder, "beside")
		require.Error(t, err, "the lock is held from the beginning")
		_, err = tx.Tx().Exec(insertOrder, "1")
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	})
}

func TestConflict(t *testing.T) {
	t.Parallel()
	db := setup(t)
	require.False(t, db.Conflict(nil))
	require.False(t, db.Conflict(errors.New("database is locked (5) (SQLITE_BUSY)")))
	_, err := db.Pool().Exec(`INSERT INTO txmsg_message (destination) VALUES ('d')`)
	require.Error(t, err)
	require.False(t, db.Conflict(err))
}

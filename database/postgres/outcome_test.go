package postgres_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/txmsg"
)

// unclear commits tx with a message and requires that nobody can say what became of it.
func unclear(t *testing.T, b bundle, tx txmsg.Transaction[pgx.Tx]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := tx.Commit(ctx, b.message("m")...)
	require.ErrorIs(t, err, txmsg.ErrOutcomeUnknown)
	b.requireIdle(t)
	require.NoError(t, tx.Rollback(t.Context()), "after a commit it does nothing")
}

func outcome(t *testing.T, tx txmsg.Transaction[pgx.Tx]) txmsg.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	outcome, err := tx.Outcome(ctx)
	require.NoError(t, err)
	return outcome
}

func order(t *testing.T, tx txmsg.Transaction[pgx.Tx], id string) {
	t.Helper()
	_, err := tx.Tx().Exec(t.Context(), `INSERT INTO orders (id) VALUES ($1)`, id)
	require.NoError(t, err)
}

func TestOutcome(t *testing.T) {
	t.Run("C12 a commit whose reply was swallowed is committed", func(t *testing.T) {
		t.Parallel()
		direct := setup(t)
		proxy := services.NewProxy(t, direct.dsn)
		b := openWarm(t, proxy.Replace(direct.dsn))
		tx := b.begin(t)
		order(t, tx, "1")
		proxy.SwallowReplies()
		unclear(t, b, tx)
		proxy.Restore()
		require.Equal(t, txmsg.Committed, outcome(t, tx))
		require.Equal(t, 1, direct.count(t, "orders"))
		require.Equal(t, 1, direct.count(t, "txmsg_ready"))
	})

	t.Run("C12 a commit that never reached the server is rolled back, once the server knows", func(t *testing.T) {
		t.Parallel()
		direct := setup(t)
		hole, dsn := throughHole(t, direct.dsn)
		b := openWarm(t, dsn)
		tx := b.begin(t)
		order(t, tx, "1")
		hole.lose()
		unclear(t, b, tx)

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		got, err := tx.Outcome(ctx)
		require.Error(t, err, "it is still in progress: INSERT and COMMIT may be on their way")
		require.Equal(t, txmsg.Unknown, got)

		hole.close()
		require.Equal(t, txmsg.RolledBack, outcome(t, tx))
		require.Zero(t, direct.count(t, "orders"))
		require.Zero(t, direct.count(t, "txmsg_ready"))
	})

	t.Run("C12 Transact finds out and returns nil", func(t *testing.T) {
		t.Parallel()
		direct := setup(t)
		proxy := services.NewProxy(t, direct.dsn)
		b := openWarm(t, proxy.Replace(direct.dsn))
		start := func(tx txmsg.Transaction[pgx.Tx]) txmsg.Attempt {
			return &resolving{attempt: attempt{b: b, tx: tx}, before: proxy.Restore}
		}
		err := txmsg.Transact(t.Context(), b.DB, txmsg.TransactConfig{CommitTimeout: 300 * time.Millisecond}, start,
			func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
				if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ('1')`); err != nil {
					return err
				}
				proxy.SwallowReplies()
				return out.Publish(ctx, txmsg.Message{Topic: "orders"})
			})
		require.NoError(t, err)
		require.Equal(t, 1, direct.count(t, "txmsg_ready"))
	})

	t.Run("a full pool does not block it", func(t *testing.T) {
		t.Parallel()
		direct := setup(t)
		hole, dsn := throughHole(t, direct.dsn)
		b := openWarm(t, dsn)
		tx := b.begin(t)
		order(t, tx, "1")
		hole.lose()
		unclear(t, b, tx)
		hole.close()
		blocker := b.begin(t)
		require.Equal(t, txmsg.RolledBack, outcome(t, tx))
		require.NoError(t, blocker.Rollback(t.Context()))
	})

	t.Run("a session ended by the server is unclear and then rolled back", func(t *testing.T) {
		t.Parallel()
		b := openWarm(t, setup(t).dsn)
		tx := b.begin(t)
		var pid int
		require.NoError(t, tx.Tx().QueryRow(t.Context(), `INSERT INTO orders (id) VALUES ('1') RETURNING pg_backend_pid()`).Scan(&pid))
		other := open(t, b.dsn, postgres.Config{})
		require.True(t, query[bool](t, other, `SELECT pg_terminate_backend($1)`, pid))
		unclear(t, b, tx)
		require.Equal(t, txmsg.RolledBack, outcome(t, tx))
		require.Zero(t, b.count(t, "orders"))
	})

	t.Run("the credentials of the moment are used", func(t *testing.T) {
		t.Parallel()
		direct := setup(t)
		before, after := 0, 0
		b := open(t, direct.dsn, postgres.Config{}, func(c *pgxpool.Config) {
			c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { before++; return nil }
			c.AfterConnect = func(context.Context, *pgx.Conn) error { after++; return nil }
		})
		tx := b.begin(t)
		order(t, tx, "1")
		require.NoError(t, tx.Commit(t.Context()))
		before, after = 0, 0
		require.Equal(t, txmsg.Committed, outcome(t, tx))
		require.Equal(t, []int{1, 1}, []int{before, after})
	})
}

// openWarm opens a pool of one connection, on which the statements of a commit with a message are prepared: the next such
// commit is one round trip.
func openWarm(t *testing.T, dsn string) bundle {
	t.Helper()
	b := open(t, dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 1 })
	tx := b.begin(t)
	require.NoError(t, tx.Commit(t.Context(), b.message("warm")...))
	b.exec(t, `DELETE FROM txmsg_ready`)
	return b
}

// resolving calls before ahead of the search for the outcome.
type resolving struct {
	attempt
	before func()
}

func (a *resolving) Resolve(ctx context.Context) txmsg.Outcome {
	a.before()
	return a.attempt.Resolve(ctx)
}

// A crash may lose ids that were given but stand in no flushed record, and give them again. The status of such an id is that
// of a stranger.
func TestOutcomeAfterCrash(t *testing.T) {
	t.Parallel()
	// Without records for standbys none of the ids gets into the log.
	server := services.StartPostgres(t, map[string]string{"wal_level": "minimal", "max_wal_senders": "0"})
	b := setupAt(t, server.Address(), postgres.Config{})
	tx := b.begin(t)
	var xid string
	require.NoError(t, tx.Tx().QueryRow(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&xid))
	server.Kill()
	server.Restart()
	want, err := strconv.Atoi(xid)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var now int
		err := b.pool.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&now)
		return err == nil && now > want
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "committed", query[string](t, b, `SELECT pg_xact_status($1::text::xid8)`, xid), "the id was not given again")

	require.Equal(t, txmsg.Unknown, outcome(t, tx))
}

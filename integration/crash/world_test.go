package crash

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// businessSQL makes a service's own tables.
var businessSQL = []string{
	"CREATE TABLE aggregate (key text PRIMARY KEY, version bigint NOT NULL)",
	"CREATE TABLE event (id text PRIMARY KEY, key text NOT NULL, version bigint NOT NULL, body %s NOT NULL)",
	"INSERT INTO aggregate VALUES %s",
}

func business(bytes string) []string {
	values := ""
	for key := range keys {
		values += fmt.Sprintf(", ('key-%d', 0)", key)
	}
	return []string{businessSQL[0], fmt.Sprintf(businessSQL[1], bytes), fmt.Sprintf(businessSQL[2], values[2:])}
}

// base is the database of one world, seen from outside.
type base struct {
	database string
	// committed returns the business rows.
	committed func(t *testing.T) []event
	// unsent returns how many messages the local table holds, in any state.
	unsent func(t *testing.T) int64
	// awaitGone waits until the database has ended what a dead process had begun: a COMMIT that was on its way may still
	// take effect until then.
	awaitGone func(t *testing.T, name string)
}

func newPostgres(t *testing.T) (base, *pgxpool.Pool) {
	t.Helper()
	ctx := context.Background()
	dsn := services.Schema(t, services.Postgres(t))
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Migrate(ctx))
	for _, statement := range business("bytea") {
		_, err := pool.Exec(ctx, statement)
		require.NoError(t, err)
	}
	count := func(t *testing.T, query string, args ...any) (n int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(ctx, query, args...).Scan(&n))
		return n
	}
	return base{
		database: dsn,
		committed: func(t *testing.T) []event {
			rows, err := pool.Query(ctx, "SELECT id, key, version, body FROM event")
			require.NoError(t, err)
			events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
			require.NoError(t, err)
			return events
		},
		unsent: func(t *testing.T) int64 { return unsent(t, db) },
		awaitGone: func(t *testing.T, name string) {
			t.Helper()
			await(t, "sessions of the dead process", func() bool {
				return count(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name) == 0
			})
		},
	}, pool
}

func newSQLite(t *testing.T) base {
	t.Helper()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "crash.db")
	db, err := sqlite.Open(ctx, path, sqlite.Config{BusyTimeout: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Migrate(ctx))
	for _, statement := range business("blob") {
		_, err := db.Pool().ExecContext(ctx, statement)
		require.NoError(t, err)
	}
	return base{
		database:  path,
		committed: func(t *testing.T) []event { return readEvents(t, db.Pool()) },
		unsent:    func(t *testing.T) int64 { return unsent(t, db) },
		awaitGone: func(*testing.T, string) {}, // the transaction was in the process
	}
}

func unsent(t *testing.T, store interface {
	Status(ctx context.Context) (localtable.Status, error)
},
) int64 {
	t.Helper()
	status, err := store.Status(context.Background())
	require.NoError(t, err)
	return status.Ready + status.Waiting + status.Retry + status.Parked + status.Dead
}

func readEvents(t *testing.T, pool *sql.DB) (events []event) {
	t.Helper()
	rows, err := pool.QueryContext(context.Background(), "SELECT id, key, version, body FROM event")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var e event
		require.NoError(t, rows.Scan(&e.ID, &e.Key, &e.Version, &e.Body))
		events = append(events, e)
	}
	require.NoError(t, rows.Err())
	return events
}

// await waits until done, at most for the time that a child's step may take.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			require.Fail(t, "waited in vain", "for %s, %s", what, patience)
		}
	}
}

// newName is a process's name that no other has.
func newName() string { return "crash-" + txmsg.NewID() }

package postgres_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestMigrate(t *testing.T) {
	t.Run("by eight instances at once", func(t *testing.T) {
		t.Parallel()
		dsn := services.Schema(t, services.Postgres(t))
		errs := make(chan error, 8)
		for range cap(errs) {
			b := open(t, dsn, postgres.Config{})
			go func() { errs <- b.Migrate(t.Context()) }()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		b := open(t, dsn, postgres.Config{})
		require.NoError(t, b.Migrate(t.Context()), "again")
		require.Equal(t, localtable.Lanes, b.count(t, "txmsg_lane"))
		require.Equal(t, 1, b.count(t, "txmsg_identity"))
	})

	t.Run("creates the schema that is configured, and all statements name it", func(t *testing.T) {
		t.Parallel()
		dsn := services.Database(t, services.Postgres(t))
		const schema = `odd "schema"`
		errs := make(chan error, 4)
		for range cap(errs) {
			b := open(t, dsn, postgres.Config{Schema: schema})
			go func() { errs <- b.Migrate(t.Context()) }()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		b := open(t, dsn, postgres.Config{Schema: schema})
		require.Zero(t, query[int](t, b, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`))
		useEverything(t, b)
	})

	t.Run("a callback's search path does not lead the messages astray", func(t *testing.T) {
		t.Parallel()
		dsn := services.Database(t, services.Postgres(t))
		b := open(t, dsn, postgres.Config{Schema: "messages"})
		require.NoError(t, b.Migrate(t.Context()))
		tx := b.begin(t)
		_, err := tx.Tx().Exec(t.Context(), `SET LOCAL search_path = pg_temp`)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context(), b.message("m")...))
		require.Equal(t, 1, b.count(t, "messages.txmsg_ready"))
	})

	t.Run("warns where a commit is not durable", func(t *testing.T) {
		t.Parallel()
		var log bytes.Buffer
		b := open(t, services.Schema(t, services.Postgres(t)), postgres.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
		require.NoError(t, b.Migrate(t.Context()))
		require.Contains(t, log.String(), "synchronous_commit=off")
	})
}

// useEverything calls every method of the stores once.
func useEverything(t *testing.T, b bundle) {
	t.Helper()
	ctx := t.Context()
	tx := b.begin(t)
	half := txmsg.NewID()
	require.NoError(t, b.Record(ctx, tx.Tx(), half))
	require.NoError(t, b.Forget(ctx, tx.Tx(), half))
	_, err := b.Mark(ctx, tx.Tx(), "payments", "m")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx, b.message("a", "b", "c")...))
	_, err = b.Identity(ctx)
	require.NoError(t, err)
	_, err = b.Fence(ctx, half, time.Second)
	require.NoError(t, err)

	lease, err := b.Lease(ctx, "first", time.Minute)
	require.NoError(t, err)
	rows, err := b.Read(ctx, "test", lease.Lanes, 10)
	require.NoError(t, err)
	require.Len(t, rows, 3)
	changed, err := b.Settle(ctx, localtable.Settlement{Owner: "first", Lanes: lease.Lanes, Archive: true, Unpark: 1, Errors: 1, Results: []localtable.Result{
		{Row: rows[0], Fate: localtable.Delivered}, {Row: rows[1], Fate: localtable.Retry}, {Row: rows[2], Fate: localtable.Parked},
	}})
	require.NoError(t, err)
	require.Equal(t, 3, changed)
	_, err = b.Sweep(ctx, "first", lease.Lanes, 1)
	require.NoError(t, err)
	decideEverything(t, b, lease.Lanes)
	_, err = b.Status(ctx)
	require.NoError(t, err)
	for _, prune := range []func() (int, error){
		func() (int, error) { return b.PruneMessages(ctx, 0, 10) },
		func() (int, error) { return b.PruneMessages(ctx, 24*time.Hour, 10) },
		func() (int, error) { return b.PruneHalves(ctx, time.Hour, 10) },
		func() (int, error) { return b.PruneInbox(ctx, time.Hour, 10) },
	} {
		_, err := prune()
		require.NoError(t, err)
	}
	require.NoError(t, b.Release(ctx, "first"))
}

// decideEverything retries the row in retry, lets it die, releases it and skips it.
func decideEverything(t *testing.T, b bundle, lanes []localtable.Lane) {
	t.Helper()
	for _, verb := range []localtable.Verb{localtable.VerbRetry, localtable.VerbRelease, localtable.VerbSkip} {
		hour := time.Now().Add(time.Hour)
		rows, err := b.FindHeld(t.Context(), localtable.Filter{
			States: []localtable.State{localtable.StateRetry, localtable.StateDead}, Destination: "test", Topic: "orders", Key: "k",
			IDs: []string{"b"}, Since: hour.Add(-2 * time.Hour), Until: hour,
		}, 0, 10, true)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		changed, err := b.Decide(t.Context(), localtable.Decision{
			Verb: verb, Reason: localtable.Reason{Who: "ann", Why: "it's time"}, Refs: []localtable.Ref{rows[0].Ref()}, Unpark: 1,
		})
		require.NoError(t, err)
		require.Len(t, changed, 1)
		entries, err := b.Audit(t.Context(), localtable.AuditFilter{Who: "ann", Verb: verb, ID: "b", Since: hour.Add(-2 * time.Hour), Until: hour}, 0, 10)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		if verb == localtable.VerbRetry {
			due, err := b.Read(t.Context(), "test", lanes, 10)
			require.NoError(t, err)
			_, err = b.Settle(t.Context(), localtable.Settlement{
				Owner: "first", Lanes: lanes, DeadHolds: true, Errors: 1,
				Results: []localtable.Result{{Row: due[0], Fate: localtable.Dead, Error: "no", Class: "refused"}},
			})
			require.NoError(t, err)
		}
	}
}

func TestPoolers(t *testing.T) {
	for name, mode := range map[string]pgx.QueryExecMode{
		"cache describe": pgx.QueryExecModeCacheDescribe, "describe exec": pgx.QueryExecModeDescribeExec,
		"exec": pgx.QueryExecModeExec, "simple protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run("everything works without prepared statements: "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			useEverything(t, open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
		})
	}
}

func TestClock(t *testing.T) {
	for _, zone := range []string{"Asia/Jakarta", "America/New_York"} {
		t.Run("C28 a retry is due when it is due, in "+zone, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b = open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["timezone"] = zone })
			require.NoError(t, b.begin(t).Commit(t.Context(), b.message("m")...))
			lease, err := b.Lease(t.Context(), "first", time.Minute)
			require.NoError(t, err)
			read := func() []localtable.Row {
				rows, err := b.Read(t.Context(), "test", lease.Lanes, 10)
				require.NoError(t, err)
				return rows
			}
			before := time.Now()
			_, err = b.Settle(t.Context(), localtable.Settlement{
				Owner: "first", Lanes: lease.Lanes, Results: []localtable.Result{{Row: read()[0], Fate: localtable.Retry, After: 2 * time.Second}},
			})
			require.NoError(t, err)
			require.Empty(t, read(), "due too early")
			require.Eventually(t, func() bool { return len(read()) == 1 }, 10*time.Second, 50*time.Millisecond)
			require.GreaterOrEqual(t, time.Since(before), 2*time.Second)
			require.WithinDuration(t, before, read()[0].Created, time.Hour)
		})
	}

	t.Run("C27 the process's clock is not asked", func(t *testing.T) {
		files, err := filepath.Glob("*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") {
				require.NotContains(t, string(source), "time.Now(", file)
			}
		}
	})
}

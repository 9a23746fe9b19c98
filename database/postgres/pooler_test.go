package postgres_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	tabletest "github.com/txmsg/txmsg-go/localtable/storetest"
)

// through is b behind the pooler at address.
func (b bundle) through(t testing.TB, address string, listen func(pooler string) (url string)) bundle {
	t.Helper()
	parsed, err := url.Parse(address)
	require.NoError(t, err)
	parsed.RawQuery = url.Values{"default_query_exec_mode": {"exec"}}.Encode()
	dsn := parsed.String()
	return open(t, dsn, postgres.Config{Schema: query[string](t, b, "SELECT current_schema()"), ListenURL: listen(dsn)})
}

func TestPooler(t *testing.T) {
	t.Parallel()
	pooler := services.StartPgBouncer(t, services.Postgres(t), nil)
	nowhere := func(string) string { return "" }

	t.Run("C30 the store works through a pooler in transaction mode", func(t *testing.T) {
		t.Parallel()
		tabletest.Run(t, func(t *testing.T) tabletest.Harness[pgx.Tx] {
			b := setup(t)
			db := b.through(t, pooler.Address(), func(string) string { return b.dsn })
			return b.table(db, db)
		})
	})

	t.Run("C30 a listener that would go through the pooler does not listen at all", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		db := b.through(t, pooler.Address(), nowhere)
		err := db.Listen(t.Context(), func() { t.Error("heard") })
		require.ErrorIs(t, err, localtable.ErrDeaf)
		require.ErrorContains(t, err, "Config.ListenURL")
		require.NoError(t, db.Notify(t.Context()))
		require.Zero(t, query[int](t, b, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || 'txmsg_message'::regclass::oid::text || '%'`))
	})

	t.Run("C30 a URL that leads through the pooler is found out, and nothing is left in its session", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		single := services.StartPgBouncer(t, services.Postgres(t), map[string]string{"default_pool_size": "1"})
		db := b.through(t, single.Address(), func(pooler string) string { return pooler })
		require.ErrorIs(t, db.Listen(t.Context(), func() { t.Error("heard") }), localtable.ErrDeaf)
		require.Zero(t, query[int](t, db, "SELECT count(*) FROM pg_listening_channels()"))
	})

	t.Run("C30 a pooler in session mode is good enough for the URL", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sessions := services.StartPgBouncer(t, services.Postgres(t), map[string]string{"pool_mode": "session"})
		db := b.through(t, pooler.Address(), func(string) string { return sessions.Address() })
		heard, _ := listen(t, db.DB)
		require.NoError(t, db.Notify(t.Context()))
		await(t, heard, "notification")
	})
}

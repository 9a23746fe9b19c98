package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// watchCommits notes how durable the commits are that change the tables.
func watchCommits(t *testing.T, b bundle) {
	t.Helper()
	b.exec(t, `CREATE TABLE durability (what text, setting text);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO durability VALUES (TG_TABLE_NAME || ' ' || TG_OP, current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE TRIGGER note AFTER INSERT OR DELETE ON txmsg_ready FOR EACH STATEMENT EXECUTE FUNCTION note();
		CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON txmsg_held FOR EACH STATEMENT EXECUTE FUNCTION note();
		CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON txmsg_instance FOR EACH STATEMENT EXECUTE FUNCTION note()`)
}

func (b bundle) durability(t *testing.T, what string) []string {
	t.Helper()
	return query[[]string](t, b, `SELECT coalesce(array_agg(DISTINCT setting), '{}') FROM durability WHERE what = $1`, what)
}

func TestCommitIsDurable(t *testing.T) {
	settle := func(t *testing.T, b bundle) {
		watchCommits(t, b)
		require.NoError(t, b.transact(t.Context(), func(ctx context.Context, _ pgx.Tx, out txmsg.Publisher) error {
			return out.Publish(ctx, txmsg.Message{ID: "m", Topic: "orders", Key: "k"})
		}))
		require.Equal(t, []string{"on"}, b.durability(t, "txmsg_ready INSERT"))
		r := lease(t, b)
		require.Equal(t, []string{"on"}, b.durability(t, "txmsg_instance INSERT"))
		require.Equal(t, 1, r.settle(t, localtable.Result{Row: r.read(t, "test")[0], Fate: localtable.Delivered}))
		require.Equal(t, []string{"off"}, b.durability(t, "txmsg_ready DELETE"))
	}

	t.Run("where it carries messages or leases, not where it settles", func(t *testing.T) {
		t.Parallel()
		settle(t, setup(t))
	})

	t.Run("again on a connection that has settled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b = open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 1 })
		settle(t, b)
		require.Equal(t, "on", query[string](t, b, `SHOW synchronous_commit`))
		b.exec(t, `INSERT INTO txmsg_held (topic, key, body, state) VALUES ('orders', 'k', '', 'parked')`)
		b.exec(t, `DELETE FROM durability`)
		r := lease(t, b)
		swept, err := b.Sweep(t.Context(), "first", r.lanes, 10)
		require.NoError(t, err)
		require.Equal(t, 1, swept)
		require.Equal(t, []string{"on"}, b.durability(t, "txmsg_ready INSERT"))
	})
}

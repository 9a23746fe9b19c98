package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/txmsg"
)

// as returns the database of b as a new role sees it that has only these duties.
func (b bundle) as(t testing.TB, duties ...postgres.Duty) bundle {
	t.Helper()
	role := "role_" + strings.ReplaceAll(txmsg.NewID(), "-", "")
	b.exec(t, `CREATE ROLE `+role+` LOGIN`)
	t.Cleanup(func() {
		_, err := b.pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		require.NoError(t, err)
	})
	require.NoError(t, b.Grant(t.Context(), role, duties...))
	dsn, err := url.Parse(b.dsn)
	require.NoError(t, err)
	dsn.User = url.User(role)
	return open(t, dsn.String(), postgres.Config{})
}

func TestGrantAllowsNoMoreThanTheDuty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const insufficientPrivilege = "42501"
	for duty, forbidden := range map[postgres.Duty][]string{
		postgres.Write: {
			`SELECT * FROM txmsg_ready`, `DELETE FROM txmsg_ready`, `UPDATE txmsg_ready SET attempts = 0`, `SELECT * FROM txmsg_held`,
			`UPDATE txmsg_held SET holds = false`, `SELECT * FROM txmsg_delivered`, `UPDATE txmsg_lane SET owner = NULL`,
			`SELECT * FROM txmsg_instance`, `SELECT * FROM txmsg_half`, `SELECT * FROM txmsg_inbox`, `SELECT setval('txmsg_ready_seq_seq', 1)`,
			`INSERT INTO txmsg_ready (lane, topic, body, revision) VALUES (1, 'orders', '', 2147483647)`, `INSERT INTO txmsg_ready (lane, topic, body, created_at) VALUES (1, 'orders', '', 'infinity')`,
			`INSERT INTO txmsg_ready (lane, topic, body, seq) OVERRIDING SYSTEM VALUE VALUES (1, 'orders', '', 1)`, `INSERT INTO txmsg_ready (lane, topic, body, attempts) VALUES (1, 'orders', '', 1)`,
			`SELECT * FROM txmsg_message`,
			`INSERT INTO txmsg_held (topic, body, due_at, state) VALUES ('orders', '', now(), 'dead')`, `INSERT INTO txmsg_held (topic, body, due_at, seq) VALUES ('orders', '', now(), 1)`,
		},
		postgres.Relay: {
			`UPDATE txmsg_ready SET body = ''`, `TRUNCATE txmsg_ready`, `DROP TABLE txmsg_ready`, `DELETE FROM txmsg_lane`,
			`SELECT nextval('txmsg_ready_seq_seq')`, `SELECT * FROM txmsg_half`, `SELECT * FROM txmsg_inbox`, `SELECT * FROM orders`, `SELECT * FROM txmsg_audit`,
			`INSERT INTO txmsg_audit (who) VALUES ('')`,
		},
		postgres.Operate: {
			`UPDATE txmsg_audit SET who = ''`, `DELETE FROM txmsg_audit`, `TRUNCATE txmsg_audit`, `SELECT * FROM txmsg_ready`,
			`DELETE FROM txmsg_ready`, `INSERT INTO txmsg_held (topic, body) VALUES ('orders', '')`, `SELECT * FROM txmsg_delivered`,
			`SELECT * FROM txmsg_inbox`,
		},
		postgres.Check:   {`UPDATE txmsg_half SET state = 'committed'`, `INSERT INTO txmsg_identity DEFAULT VALUES`, `SELECT * FROM txmsg_ready`},
		postgres.Consume: {`TRUNCATE txmsg_inbox`, `SELECT * FROM txmsg_ready`, `SELECT * FROM txmsg_half`},
	} {
		role := b.as(t, duty)
		for _, statement := range forbidden {
			t.Run(fmt.Sprintf("%s: %s", duty, statement), func(t *testing.T) {
				_, err := role.pool.Exec(t.Context(), statement)
				var refused *pgconn.PgError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, insufficientPrivilege, refused.Code, refused.Message)
			})
		}
	}
}

func TestGrantToAWriterIsEnoughForTransact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	writer := b.as(t, postgres.Write)
	require.NoError(t, writer.transact(t.Context(), func(ctx context.Context, _ pgx.Tx, out txmsg.Publisher) error {
		return out.Publish(ctx, txmsg.Message{Topic: "orders", Key: "k"}, txmsg.Message{Topic: "orders", Delay: 1})
	}))
	require.NoError(t, writer.transact(t.Context(), func(ctx context.Context, _ pgx.Tx, out txmsg.Publisher) error {
		return out.Publish(ctx, txmsg.Message{Topic: "orders"})
	}))
	require.Equal(t, 2, b.count(t, "txmsg_ready"))
	require.Equal(t, 1, b.count(t, "txmsg_held"))
}

// A table of the writer's own is not taken for the library's, whose owner would run its triggers.
func TestGrantOfTheViewAloneIsEnoughForOtherPrograms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.as(t)
	b.exec(t, `GRANT INSERT ON txmsg_message TO `+query[string](t, other, `SELECT quote_ident(current_user)`))
	other.exec(t, `CREATE TEMP TABLE txmsg_ready (lane int, destination text, id text, topic text, key text, type text, sequence bigint, headers jsonb, body bytea);
		INSERT INTO txmsg_message (topic, id, key, body) VALUES ('orders', 'a', 'k', '')`)
	require.Equal(t, "a", query[string](t, b, `SELECT id FROM txmsg_ready`))

	schema := query[string](t, b, `SELECT quote_ident(current_schema())`)
	b.exec(t, `CREATE FUNCTION `+schema+`.hashtext(varchar) RETURNS int LANGUAGE sql AS 'SELECT 1/0'`) // fits better than PostgreSQL's own
	other.exec(t, `INSERT INTO txmsg_message (topic, id, key, body) VALUES ('orders', 'b', 'k', '')`)
	_, err := b.as(t).pool.Exec(t.Context(), `CREATE TEMP VIEW mine AS SELECT 1 AS a;
		CREATE TRIGGER write INSTEAD OF INSERT ON mine FOR EACH ROW EXECUTE FUNCTION txmsg_write()`)
	require.ErrorContains(t, err, "permission denied for function txmsg_write")
}

func TestGrantRefusesAnUnknownDuty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.ErrorContains(t, b.Grant(t.Context(), "nobody", "everything"), `duty must be one of ["write" "relay" "operate" "check" "consume"], got "everything"`)
	require.ErrorContains(t, b.Grant(t.Context(), `no"body`, postgres.Write), `postgres: grant to "no\"body"`)
}

func TestGrantToARelayIsEnoughToMakeAndDropPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const partitions = `SELECT count(*)::int FROM pg_inherits WHERE inhparent = 'txmsg_delivered'::regclass`
	made := query[int](t, b, partitions)
	relay := b.as(t, postgres.Relay)
	relay.exec(t, `CREATE TABLE txmsg_delivered_20200101 PARTITION OF txmsg_delivered FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')`)
	tomorrow := query[string](t, b, `SELECT 'txmsg_delivered_' || to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')`)
	relay.exec(t, `DROP TABLE `+tomorrow)
	_, err := relay.PruneMessages(t.Context(), 24*time.Hour, 100)
	require.NoError(t, err)
	require.Equal(t, made, query[int](t, b, partitions), "tomorrow's is made, the old one is dropped")
	require.True(t, query[bool](t, b, `SELECT to_regclass($1) IS NOT NULL`, tomorrow))
}

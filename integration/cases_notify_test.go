package integration

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
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

// never is a poll interval that no test waits for: what is sent was told of.
const never = time.Hour

func TestNotifyCases(t *testing.T) {
	t.Parallel()
	server, broker := services.Postgres(t), onNATS(t)
	test := beside(t, func(t *testing.T) *shop { return newShop(t, server, broker) })
	test("C13 a pool of one relays and writes, since listening takes no connection of it", testPoolOfOne)
	test("C16 after a restore into a fresh cluster what was unsent and what is new is sent, and nothing else", testRestore)
	test("C17 a message of 500 KB is told of without its body", testLargeBody)
	test("C29 a listener that is cut off finds what was committed meanwhile, and listens again", testCutListener)
	test("C29 it is calm while the database is out of reach for 20 s", testUnreachable)
	test("C30 through a pooler in transaction mode it polls, with one warning", testPooler)
	test("C30 with a URL past the pooler it is told at once", testPastPooler)
}

// over is one process's messenger whose database is reached by pool.
func (s *shop) over(t *testing.T, pool *pgxpool.Pool, database postgres.Config, cfg localtable.Config) *messenger {
	t.Helper()
	database.Logger, cfg.Logger = s.log.logger(), s.log.logger()
	db, err := postgres.New(pool, database)
	require.NoError(t, err)
	broker := s.broker.open(t)
	t.Cleanup(func() { _ = broker.Close() }) // of a messenger that nobody runs
	m, err := localtable.New(db, broker, cfg)
	require.NoError(t, err)
	return m
}

func awaitListens(t *testing.T, m *messenger) {
	t.Helper()
	eventually(t, func() bool { return m.Health().Listens }, "the relay to listen")
}

func testPoolOfOne(t *testing.T, s *shop) {
	relay := s.over(t, newPool(t, s.dsn, 1), postgres.Config{}, localtable.Config{PollInterval: never})
	run(t, relay)
	awaitListens(t, relay)
	writer := s.over(t, newPool(t, s.dsn, 1), postgres.Config{}, localtable.Config{})
	for n := range 10 {
		s.commit(t, writer, s.order(fmt.Sprint(n), "from another process"))
		s.commit(t, relay, s.order(fmt.Sprint(n), "from its own"))
		s.awaitDelivered(t)
	}
	s.awaitDrained(t)
}

func testRestore(t *testing.T, s *shop) {
	source := services.Database(t, services.Postgres(t))
	pool := newPool(t, source, 4)
	db, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Migrate(t.Context()))
	_, err = pool.Exec(t.Context(), ordersSQL)
	require.NoError(t, err)
	s.dsn, s.direct = source, pool
	before := s.messenger(t, localtable.Config{})
	stop := run(t, before)
	for n := range 100 {
		s.commit(t, before, s.order(fmt.Sprint(n%7), "sent"))
	}
	s.awaitDrained(t)
	stop()
	for n := range 5 {
		s.commit(t, before, s.order(fmt.Sprint(n%7), "unsent"))
	}

	fresh := services.StartPostgres(t, nil).Address()
	services.Restore(t, fresh, services.Dump(t, source))
	id := func(pool *pgxpool.Pool) (id uint64) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&id))
		return id
	}
	s.dsn, s.direct = fresh, newPool(t, fresh, 4)
	require.Less(t, id(s.direct), id(pool), "transaction ids did not begin again: the case shows nothing")
	after := s.messenger(t, localtable.Config{PollInterval: 100 * time.Millisecond})
	run(t, after)
	for n := range 10 {
		s.commit(t, after, s.order(fmt.Sprint(n%7), "new"))
	}
	s.awaitDrained(t)
	read := s.awaitDelivered(t)
	require.Len(t, read, 115, "records")
	require.Len(t, copies(read), 115, "ids")
}

func testLargeBody(t *testing.T, s *shop) {
	relay := s.messenger(t, localtable.Config{PollInterval: never})
	run(t, relay)
	awaitListens(t, relay)
	body := make([]byte, 500<<10)
	_, _ = rand.Read(body) // never fails
	s.commit(t, s.messenger(t, localtable.Config{}), s.order("large", string(body)))
	read := s.awaitDelivered(t)
	require.Equal(t, body, read[0].Body)
}

// cutListeners ends the sessions that listen for the shop's tables.
func (s *shop) cutListeners(t *testing.T) {
	t.Helper()
	var ended int
	require.NoError(t, s.direct.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE query = 'LISTEN "txmsg/' || 'txmsg_message'::regclass::oid::text || '"'`).Scan(&ended))
	require.Equal(t, 1, ended)
}

func testCutListener(t *testing.T, s *shop) {
	relay, writer := s.messenger(t, localtable.Config{PollInterval: never}), s.messenger(t, localtable.Config{})
	run(t, relay)
	for range 3 {
		awaitListens(t, relay)
		s.cutListeners(t)
		s.commit(t, writer, s.order("k", "in the gap"))
		s.commit(t, writer, s.order("k", "after"))
		s.awaitDelivered(t)
		awaitListens(t, relay)
		s.commit(t, writer, s.order("k", "later"))
		s.awaitDelivered(t)
	}
}

func testUnreachable(t *testing.T, s *shop) {
	proxy := services.NewProxy(t, services.Postgres(t))
	cfg, err := pgxpool.ParseConfig(proxy.Replace(s.dsn))
	require.NoError(t, err)
	var dials atomic.Int64
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	relay := s.over(t, pool, postgres.Config{}, localtable.Config{PollInterval: 100 * time.Millisecond})
	run(t, relay)
	awaitListens(t, relay)

	proxy.Cut()
	dials.Store(0)
	pause(20 * time.Second)
	tries := dials.Load()
	require.Positive(t, tries)
	require.LessOrEqual(t, tries, int64(80), "connections tried by all of the relay's loops")
	proxy.Restore()
	s.commit(t, s.messenger(t, localtable.Config{}), s.order("k", "after"))
	s.awaitDelivered(t)
	awaitListens(t, relay)
	require.Len(t, s.log.lines("not heard for now"), 1)
	require.Len(t, s.log.lines("heard again"), 1)
}

// pooled reaches the shop through a pooler in transaction mode, as docs/guarantees.md says that one must.
func (s *shop) pooled(t *testing.T) (*pgxpool.Pool, postgres.Config) {
	t.Helper()
	var schema string
	require.NoError(t, s.direct.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema))
	through, err := url.Parse(services.StartPgBouncer(t, services.Postgres(t), nil).Address())
	require.NoError(t, err)
	through.RawQuery = "default_query_exec_mode=exec"
	return newPool(t, through.String(), 8), postgres.Config{Schema: schema}
}

// business writes orders where the shop keeps them: the pooler's sessions have no search path.
func (s *shop) business(t *testing.T, m *messenger, schema string, msgs ...txmsg.Message) {
	t.Helper()
	require.NoError(t, m.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		for _, msg := range msgs {
			if _, err := tx.Exec(ctx, "INSERT INTO "+schema+".orders (id) VALUES ($1)", msg.ID); err != nil {
				return err
			}
		}
		return out.Publish(ctx, msgs...)
	}))
}

func testPooler(t *testing.T, s *shop) {
	pool, database := s.pooled(t)
	relay := s.over(t, pool, database, localtable.Config{PollInterval: 200 * time.Millisecond})
	run(t, relay)
	writer := s.over(t, pool, database, localtable.Config{})
	for n := range 20 {
		s.business(t, writer, database.Schema, s.order(fmt.Sprint(n), "from another process"))
		s.business(t, relay, database.Schema, s.order(fmt.Sprint(n), "from its own"))
	}
	s.awaitDelivered(t)
	s.awaitDrained(t)
	require.False(t, relay.Health().Listens)
	require.Len(t, s.log.lines("level=WARN"), 1)
	require.Len(t, s.log.lines("level=WARN", "not heard", "Config.ListenURL"), 1)
	require.Empty(t, s.log.lines("level=ERROR"))
}

func testPastPooler(t *testing.T, s *shop) {
	pool, database := s.pooled(t)
	database.ListenURL = s.dsn
	relay := s.over(t, pool, database, localtable.Config{PollInterval: never})
	run(t, relay)
	awaitListens(t, relay)
	writer := s.over(t, pool, database, localtable.Config{})
	for n := range 5 {
		s.business(t, writer, database.Schema, s.order(fmt.Sprint(n), "from another process"))
		s.awaitDelivered(t)
	}
	require.Empty(t, s.log.lines("level=WARN"))
}

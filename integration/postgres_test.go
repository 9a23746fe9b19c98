package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

const ordersSQL = `CREATE TABLE orders (id text PRIMARY KEY, other text REFERENCES orders DEFERRABLE INITIALLY DEFERRED)`

// newPool opens a pool that is closed with t.
func newPool(t testing.TB, dsn string, connections int) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	cfg.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// newSchema returns the DSN of a schema with the library's tables and a business table, and a pool into it.
func newSchema(t testing.TB, server string) (dsn string, pool *pgxpool.Pool) {
	t.Helper()
	dsn = services.Schema(t, server)
	pool = newPool(t, dsn, 4)
	db, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Migrate(context.Background()))
	_, err = pool.Exec(context.Background(), ordersSQL)
	require.NoError(t, err)
	return dsn, pool
}

// openPostgres makes a database whose messengers connect through a proxy.
func openPostgres(t *testing.T) base[pgx.Tx] {
	t.Helper()
	dsn, direct := newSchema(t, services.Postgres(t))
	proxy := services.NewProxy(t, dsn)
	line := &line{proxy: proxy, direct: direct}
	return base[pgx.Tx]{
		store: func(t *testing.T, connections int) localtable.Store[pgx.Tx] {
			db, err := postgres.New(newPool(t, proxy.Replace(dsn), connections), postgres.Config{})
			require.NoError(t, err)
			return db
		},
		write: insertOrder,
		rows:  func(ctx context.Context) ([]string, error) { return orders(ctx, direct) },
		nested: func(ctx context.Context, tx pgx.Tx, _ txmsg.Publisher, fn func(ctx context.Context, tx pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return fn(ctx, tx) })
		},
		hooks: txmsgtest.Hooks[pgx.Tx]{
			Conflict: &pgconn.PgError{Severity: "ERROR", Code: "40001", Message: "could not serialize access"},
			Contend:  contend,
			FailStatement: func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT 1/0")
				return err
			},
			FailCommit: func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO orders (id, other) VALUES ('dangling', 'nowhere')")
				return err
			},
			UnclearCommits: []txmsgtest.Fault[pgx.Tx]{
				line.unclear("the reply is swallowed", proxy.Restore),
				line.unclear("the reply is swallowed and the server stays out of reach", proxy.Cut),
				line.lost("the request is lost"),
			},
		},
	}
}

func insertOrder(ctx context.Context, tx pgx.Tx, id string) error {
	_, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", id)
	return err
}

func orders(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	rows, err := pool.Query(ctx, "SELECT id FROM orders")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// contend has both transactions share a lock that each of them then wants for itself: a deadlock.
func contend(ctx context.Context, tx pgx.Tx, meet func()) error {
	if _, err := tx.Exec(ctx, "SELECT 1 FROM txmsg_identity FOR SHARE"); err != nil {
		return err
	}
	meet()
	_, err := tx.Exec(ctx, "UPDATE txmsg_identity SET id = id")
	return err
}

// line is the way from messengers to the server.
type line struct {
	proxy  *services.Proxy
	direct *pgxpool.Pool
}

// unclear makes a Fault that lets COMMIT through and loses the reply; then does what after says.
func (l *line) unclear(name string, after func()) txmsgtest.Fault[pgx.Tx] {
	return txmsgtest.Fault[pgx.Tx]{Name: name, Committed: true, Start: func(t *testing.T, tx pgx.Tx, hit func()) (stop func()) {
		var id string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&id))
		l.prepare(t, tx)
		l.proxy.SwallowReplies()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if l.awaitCommit(ctx, id) {
				hit()
				after()
			}
		}()
		return func() {
			cancel()
			<-done
			l.proxy.Restore()
		}
	}}
}

// prepare has the server know what is written along with COMMIT: else the client waits for an answer before it sends it.
func (l *line) prepare(t *testing.T, tx pgx.Tx) {
	t.Helper()
	db, err := postgres.New(l.direct, postgres.Config{})
	require.NoError(t, err)
	along := db.Insert([]localtable.Entry{{Destination: "default", Message: txmsg.Message{ID: "1"}}, {Destination: "default", Message: txmsg.Message{ID: "2"}}})
	for _, statement := range append(along, txmsg.Statement{SQL: "commit"}) {
		_, err := tx.Conn().Prepare(t.Context(), statement.SQL, statement.SQL)
		require.NoError(t, err)
	}
}

// awaitCommit reports whether the transaction committed before ctx ended.
func (l *line) awaitCommit(ctx context.Context, id string) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var status string
		err := l.direct.QueryRow(ctx, "SELECT pg_xact_status($1::text::xid8)", id).Scan(&status)
		if err == nil && status == "committed" {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// lost makes a Fault in which the connection breaks before COMMIT reaches the server.
func (l *line) lost(name string) txmsgtest.Fault[pgx.Tx] {
	return txmsgtest.Fault[pgx.Tx]{Name: name, Start: func(_ *testing.T, _ pgx.Tx, hit func()) (stop func()) {
		l.proxy.Cut()
		hit()
		l.proxy.Restore()
		return func() {}
	}}
}

package postgres_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
)

const patience = time.Minute

// cut ends the sessions that listen for this schema.
func (b bundle) cut(t testing.TB) {
	t.Helper()
	ended := query[int](t, b, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE query = 'LISTEN "txmsg/' || 'txmsg_message'::regclass::oid::text || '"'`)
	require.Positive(t, ended, "nobody listens")
}

// listen returns when db hears, with what is heard and what Listen returned.
func listen(t *testing.T, db *postgres.DB) (heard chan struct{}, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended = make(chan struct{}, 100), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- db.Listen(ctx, func() { heard <- struct{}{} })
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-heard:
	case err := <-ended:
		require.NoError(t, err)
	}
	return heard, ended
}

func await[T any](t *testing.T, c chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(patience):
		require.FailNow(t, "too late", what)
	}
	return value
}

func TestListen(t *testing.T) {
	t.Parallel()

	t.Run("C13 a pool of one is not asked, however long it is taken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one := open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 1 })
		tx := one.begin(t)
		_, err := tx.Tx().Exec(t.Context(), "INSERT INTO orders VALUES ('open')")
		require.NoError(t, err)
		heard, _ := listen(t, one.DB)
		require.NoError(t, one.Notify(t.Context()))
		await(t, heard, "notification")
	})

	t.Run("a schema that is configured and one that is searched are the same tables", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		schema := query[string](t, b, "SELECT current_schema()")
		plain := open(t, services.Postgres(t), postgres.Config{Schema: schema})
		heard, _ := listen(t, plain.DB)
		require.NoError(t, b.Notify(t.Context()))
		await(t, heard, "notification")
		require.NoError(t, plain.Notify(t.Context()))
		await(t, heard, "notification")
	})

	t.Run("a program in another language can notify as the package says", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		heard, _ := listen(t, b.DB)
		b.exec(t, `SELECT pg_notify('txmsg/' || 'txmsg_message'::regclass::oid, '')`)
		await(t, heard, "notification")
	})

	t.Run("the pool's hooks are applied", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const application = "txmsg hooks"
		hooked := open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) {
			c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
				c.RuntimeParams["application_name"] = application
				return nil
			}
		})
		listen(t, hooked.DB)
		require.Positive(t, query[int](t, b, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
			AND query = 'LISTEN "txmsg/' || 'txmsg_message'::regclass::oid::text || '"'`, application))
	})

	t.Run("a connection that is dead without a word is noticed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		proxy := services.NewProxy(t, services.Postgres(t))
		db := open(t, proxy.Replace(b.dsn), postgres.Config{})
		postgres.SetPulse(db.DB, 50*time.Millisecond)
		_, ended := listen(t, db.DB)
		proxy.SwallowReplies()
		require.Error(t, await(t, ended, "end of Listen"))
	})

	t.Run("one that hears nothing for long goes on", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		postgres.SetPulse(b.DB, time.Millisecond)
		heard, _ := listen(t, b.DB)
		for range 20 {
			require.NoError(t, b.Notify(t.Context()))
			await(t, heard, "notification")
		}
	})

	t.Run("a sender whose connection was lost takes another", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		name := strings.ToLower(rand.Text())
		named := open(t, b.dsn+"&application_name="+name, postgres.Config{})
		heard, _ := listen(t, b.DB)
		for range 3 {
			require.NoError(t, named.Notify(t.Context()))
			await(t, heard, "notification")
			require.Equal(t, 1, query[int](t, b, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1`, name))
		}
	})
}

func TestListenURL(t *testing.T) {
	t.Parallel()
	t.Run("what is no DSN is refused, and its password not shown", func(t *testing.T) {
		t.Parallel()
		pool := open(t, "postgres://127.0.0.1:1/none", postgres.Config{}).pool
		for _, url := range []string{"postgres://user:secret@host:port/db", "host=h password=secret port=x", "postgres://user:sec/ret@host/db", "user=u password='secret"} {
			_, err := postgres.New(pool, postgres.Config{ListenURL: url})
			require.ErrorContains(t, err, "postgres: Config.ListenURL must be a PostgreSQL DSN")
			require.NotContains(t, err.Error(), "sec")
		}
	})

	t.Run("it is where the listener goes, and nobody else", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		proxy := services.NewProxy(t, services.Postgres(t))
		db := open(t, b.dsn, postgres.Config{ListenURL: proxy.Replace(b.dsn) + "&pool_max_conns=3"})
		heard, ended := listen(t, db.DB)
		require.NoError(t, db.Notify(t.Context()))
		await(t, heard, "notification")
		proxy.Cut()
		require.Error(t, await(t, ended, "end of Listen"))
		require.NoError(t, db.Notify(t.Context()))
	})
}

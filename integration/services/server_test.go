package services_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/integration/services"
)

// store is the little that the tests ask of any server: that it keeps n, and has kept it.
type store struct {
	keep func(ctx context.Context, n int) error
	kept func(ctx context.Context) (int, error)
}

func TestServersSurviveFaultsWithAddressAndData(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (*services.Server, store){
		"postgres": startPostgres,
		"kafka":    startKafka,
		"nats":     startNATS,
	} {
		t.Run(name, func(t *testing.T) {
			server, store := start(t)
			n := 0
			requireServes := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				kept, err := store.kept(ctx)
				for err != nil && ctx.Err() == nil { // Kafka answers before it has read its own topics again
					kept, err = store.kept(ctx)
				}
				require.NoError(t, err)
				require.Equal(t, n, kept)
				n++
				require.NoError(t, store.keep(ctx, n))
			}
			requireSilent := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := store.kept(ctx)
				require.Error(t, err)
			}
			requireServes()

			server.Kill()
			requireSilent()
			server.Restart()
			requireServes()

			server.Pause()
			requireSilent()
			server.Resume()
			requireServes()

			server.Pause()
			server.Stop()
			requireSilent()
			server.Restart()
			requireServes()

			server.Restart()
			requireServes()
			server.Pause() // the end of the test must cope with a frozen server
		})
	}
}

func startPostgres(t *testing.T) (*services.Server, store) {
	server := services.StartPostgres(t, nil)
	on := func(ctx context.Context, act func(*pgx.Conn) error) error {
		connection, err := pgx.Connect(ctx, server.Address())
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close(ctx) }()
		return act(connection)
	}
	require.NoError(t, on(t.Context(), func(c *pgx.Conn) error {
		_, err := c.Exec(t.Context(), "CREATE TABLE kept (n int)")
		return err
	}))
	return server, store{
		keep: func(ctx context.Context, n int) error {
			return on(ctx, func(c *pgx.Conn) error {
				_, err := c.Exec(ctx, "INSERT INTO kept VALUES ($1)", n)
				return err
			})
		},
		kept: func(ctx context.Context) (n int, err error) {
			err = on(ctx, func(c *pgx.Conn) error {
				return c.QueryRow(ctx, "SELECT coalesce(max(n), 0) FROM kept").Scan(&n)
			})
			return n, err
		},
	}
}

func startKafka(t *testing.T) (*services.Server, store) {
	server := services.StartKafka(t, map[string]string{"num.partitions": "1"})
	on := func(act func(*kgo.Client) error) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(server.Address()), kgo.AllowAutoTopicCreation())
		if err != nil {
			return err
		}
		defer client.Close()
		return act(client)
	}
	return server, store{
		keep: func(ctx context.Context, n int) error {
			return on(func(c *kgo.Client) error {
				return c.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: fmt.Append(nil, n)}).FirstErr()
			})
		},
		kept: func(ctx context.Context) (n int, err error) {
			return n, on(func(c *kgo.Client) error {
				ends, err := kadm.NewClient(c).ListEndOffsets(ctx, "kept")
				if err != nil {
					return err
				}
				if err := ends.Error(); err == kerr.UnknownTopicOrPartition {
					return nil
				} else if err != nil {
					return err
				}
				end, _ := ends.Lookup("kept", 0)
				n = int(end.Offset)
				return nil
			})
		},
	}
}

func startNATS(t *testing.T) (*services.Server, store) {
	server := services.StartNATS(t, nil)
	on := func(ctx context.Context, act func(nats.JetStreamContext) error) error {
		connection, err := nats.Connect(server.Address(), nats.Timeout(time.Second))
		if err != nil {
			return err
		}
		defer connection.Close()
		stream, err := connection.JetStream(nats.Context(ctx))
		if err != nil {
			return err
		}
		return act(stream)
	}
	require.NoError(t, on(t.Context(), func(s nats.JetStreamContext) error {
		_, err := s.AddStream(&nats.StreamConfig{Name: "kept", Subjects: []string{"kept"}})
		return err
	}))
	return server, store{
		keep: func(ctx context.Context, n int) error {
			return on(ctx, func(s nats.JetStreamContext) error {
				_, err := s.Publish("kept", fmt.Append(nil, n))
				return err
			})
		},
		kept: func(ctx context.Context) (n int, err error) {
			return n, on(ctx, func(s nats.JetStreamContext) error {
				info, err := s.StreamInfo("kept")
				if err == nil {
					n = int(info.State.Msgs)
				}
				return err
			})
		},
	}
}

func TestRocketMQBrokerSurvivesFaults(t *testing.T) {
	server, proxy := services.StartRocketMQProxied(t, map[string]string{"brokerName": "alone"})
	requireServes := func() {
		t.Helper()
		require.Eventually(t, func() bool { return services.RocketMQServes(t.Context(), server.Address()) == nil },
			time.Minute, 100*time.Millisecond)
	}
	requireSilent := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, services.RocketMQServes(ctx, server.Address()))
	}
	requireServes()

	proxy.SwallowReplies()
	requireSilent()
	proxy.Restore()
	requireServes()

	server.Kill()
	requireSilent()
	server.Restart()
	requireServes()

	server.Pause()
	requireSilent()
	server.Resume()
	requireServes()

	server.Restart()
	requireServes()
}

func TestKafkaIsReachedThroughItsProxyAlone(t *testing.T) {
	server, proxy := services.StartKafkaProxied(t, nil)
	require.Equal(t, server.Address(), proxy.Addr())
	client, err := kgo.NewClient(kgo.SeedBrokers(proxy.Addr()))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	// The answer comes from the broker's advertised address, not from the seed.
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := admin.CreateTopic(ctx, 1, 1, nil, fmt.Sprintf("proxied-%d", time.Now().UnixNano()))
		return err
	}
	require.NoError(t, ask(time.Minute))

	proxy.Cut()
	require.Error(t, ask(time.Second))

	proxy.Restore()
	require.NoError(t, ask(time.Minute))

	proxy.SwallowReplies()
	require.Error(t, ask(time.Second))

	proxy.Restore()
	require.NoError(t, ask(time.Minute))
}

func TestDatabasesAndSchemasAreFreshAndGoAway(t *testing.T) {
	server := services.Postgres(t)
	var dsns []string
	t.Run("fresh", func(t *testing.T) {
		database := services.Database(t, server)
		dsns = []string{database, services.Schema(t, database), services.Schema(t, server), services.Schema(t, server)}
		for _, dsn := range dsns {
			connection, err := pgx.Connect(t.Context(), dsn)
			require.NoError(t, err)
			_, err = connection.Exec(t.Context(), "CREATE TABLE mine (n int)")
			require.NoError(t, err)
			require.NoError(t, connection.Close(t.Context()))
		}
		connection, err := pgx.Connect(t.Context(), database)
		require.NoError(t, err, "an open connection must not keep the database")
		_, err = connection.Exec(t.Context(), "SELECT pg_create_logical_replication_slot($1, 'pgoutput')",
			fmt.Sprintf("slot_%d", time.Now().UnixNano()))
		require.NoError(t, err)
	})
	_, err := pgx.Connect(t.Context(), dsns[0])
	require.ErrorContains(t, err, "does not exist")
	connection, err := pgx.Connect(t.Context(), dsns[2])
	require.NoError(t, err)
	defer func() { _ = connection.Close(t.Context()) }()
	_, err = connection.Exec(t.Context(), "CREATE TABLE mine (n int)")
	require.ErrorContains(t, err, "no schema")
}

package integration

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/config"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/rocketmq"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Every backend there is, on a database and brokers at an address that counts who connects.
func TestConfigCases(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var connections atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	address := listener.Addr().String()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@"+address+"/nowhere")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	backends := txmsg.Backends[pgx.Tx]{
		"rocketmq":         rocketmq.On(db),
		"localtable/kafka": localtable.On(db, kafka.Open),
		"localtable/nats":  localtable.On(db, nats.Open),
		"localtable":       localtable.OnRoutes(db, localtable.Brokers{"kafka": localtable.Opening(kafka.Open), "nats": localtable.Opening(nats.Open)}),
	}
	brokers := "\nkafka: {brokers: [" + address + "]}\nnats: {urls: [nats://" + address + "]}"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"C60 an unknown backend":           {"backend: rocketmqq", []string{`"rocketmqq"`, "localtable/kafka", "localtable/nats", "rocketmq"}},
		"C60 no backend":                   {"localtable: {}", []string{`""`, "localtable/kafka"}},
		"C60 half a backend in other case": {"backend: Kafka", []string{`"Kafka"`, "localtable/kafka"}},
		"C60 an unknown key":               {"backend: localtable/kafka\nbakend: x", []string{"bakend"}},
		"C60 an unknown key of a broker":   {"backend: localtable/nats\nlocaltable: {batchsize: 5}", []string{"batchsize"}},
		"C60 an unknown broker of a route": {"backend: localtable\nlocaltable: {routes: [{destination: kafka, broker: kafak, topics: [t]}]}", []string{`must be one of kafka, nats, got "kafak"`}},
		"C60 a route without its section":  {"backend: localtable\nlocaltable: {routes: [{destination: east, broker: kafka, topics: [t]}]}", []string{"route east (t): kafka: Config.Brokers must name at least one broker"}},
		"C60 a section without its route":  {"backend: localtable\neast: {brokers: [x]}\nlocaltable: {routes: [{destination: kafka, broker: kafka, topics: [t]}]}", []string{"unknown setting east"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "shop.yaml")
			require.NoError(t, os.WriteFile(path, []byte(c.text+brokers), 0o600))
			source, err := config.Load(path, "")
			require.NoError(t, err)
			_, err = backends.Open(t.Context(), source)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Zero(t, connections.Load(), "connections that were opened")
		})
	}
}

func TestTopicCases(t *testing.T) {
	t.Parallel()
	server := services.Postgres(t)
	for name, broker := range map[string]transport{"Kafka": onKafka(t), "NATS": onNATS(t)} {
		t.Run("C61 a missing topic stops the start, "+name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, server, broker)
			missing := "missing-" + txmsg.NewID()
			m := s.messenger(t, localtable.Config{Topics: []string{s.topic, missing}})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := m.Run(ctx)
			require.ErrorIs(t, err, txmsg.ErrNoRoute)
			require.ErrorContains(t, err, missing)
			require.NotContains(t, err.Error(), s.topic)
		})
		t.Run("C61 rows of a missing topic wait and go within one retry, "+name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, server, broker)
			missing := "missing-" + txmsg.NewID()
			m := s.messenger(t, localtable.Config{Topics: []string{missing}, AllowMissing: true})
			run(t, m)
			msg := s.order("key", "waits")
			msg.Topic = missing
			s.commit(t, m, msg)
			eventually(t, func() bool { return s.status(t).Retry == 1 }, "the row to wait")
			s.commit(t, m, s.order("other", "goes"))
			s.awaitDelivered(t, msg.ID)
			broker.CreateNamed(t, missing)
			created := time.Now()
			s.awaitDrained(t)
			require.Less(t, time.Since(created), 15*time.Second, "time from the topic's creation")
			read := broker.Read(t, missing)
			require.NotEmpty(t, read)
			require.Equal(t, msg.ID, read[0].Message.ID)
		})
	}
}

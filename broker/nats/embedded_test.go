package nats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/txmsg"
)

// embedded starts a server in this process that listens nowhere.
func embedded(t *testing.T, jetStream bool) *server.Server {
	ns, err := server.NewServer(&server.Options{DontListen: true, JetStream: jetStream, StoreDir: t.TempDir(), NoSigs: true})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	require.True(t, ns.ReadyForConnections(10*time.Second))
	return ns
}

func TestInProcessServer(t *testing.T) {
	broker, err := nats.Open(context.Background(), nats.Config{InProcess: embedded(t, true), PublishTimeout: publishTimeout})
	require.NoError(t, err)
	defer broker.Close()
	missing, err := broker.Missing(context.Background(), []string{"orders"})
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, missing)
	require.ErrorIs(t, broker.Publish(context.Background(), []txmsg.Message{{ID: "1", Topic: "orders"}})[0], txmsg.ErrNoRoute)
}

// Nobody answers on any subject then, and no topic is at fault.
func TestJetStreamSwitchedOffIsAnOutage(t *testing.T) {
	broker, err := nats.Open(context.Background(), nats.Config{InProcess: embedded(t, false), PublishTimeout: publishTimeout})
	require.NoError(t, err)
	defer broker.Close()
	require.ErrorIs(t, broker.Publish(context.Background(), []txmsg.Message{{ID: "1", Topic: "orders"}})[0], txmsg.ErrOutage)
	_, err = broker.Missing(context.Background(), []string{"orders"})
	require.ErrorIs(t, err, txmsg.ErrOutage)
}

func TestServersLimitHolds(t *testing.T) {
	ns, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, MaxPayload: 64 << 10})
	require.NoError(t, err)
	ns.Start()
	defer ns.WaitForShutdown()
	defer ns.Shutdown()
	require.True(t, ns.ReadyForConnections(10*time.Second))
	broker, err := nats.Open(context.Background(), nats.Config{InProcess: ns})
	require.NoError(t, err)
	defer broker.Close()
	require.ErrorIs(t, broker.Check(txmsg.Message{ID: "1", Topic: "orders", Body: make([]byte, 64<<10)}), txmsg.ErrTooLarge)
	require.NoError(t, broker.Check(txmsg.Message{ID: "1", Topic: "orders", Body: make([]byte, 60<<10)}))
}

// BenchmarkPublish publishes batches of 500 keyed messages of about 300 bytes, one call after the other.
func BenchmarkPublish(b *testing.B) {
	address := services.NATS(b)
	topic := "bench-" + txmsg.NewID()
	createStream(b, address, topic, 0)
	broker, err := nats.Open(context.Background(), nats.Config{URLs: []string{address}})
	require.NoError(b, err)
	defer broker.Close()
	batch := make([]txmsg.Message, 500)
	for b.Loop() {
		for i := range batch {
			batch[i] = txmsg.Message{ID: txmsg.NewID(), Topic: topic, Key: fmt.Sprint("key ", i), Type: "order.created", Body: make([]byte, 200)}
		}
		for _, err := range broker.Publish(context.Background(), batch) {
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "messages/s")
}

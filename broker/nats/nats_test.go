package nats_test

import (
	"context"
	"strings"
	"testing"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/brokertest"
)

var _ localtable.Broker = (*nats.Broker)(nil)

const publishTimeout = 2 * time.Second

func TestBroker(t *testing.T) { brokertest.Run(t, harness(t)) }

func TestBrokerRestarts(t *testing.T) {
	t.Parallel()
	brokertest.RunRestarts(t, harness(t))
}

func harness(t *testing.T) brokertest.Harness {
	address := services.NATS(t)
	return brokertest.Harness{
		Server:       serve(address, address),
		Timeout:      publishTimeout,
		Oversized:    2 << 20,
		Deduplicates: true,
		Faulty: func(t *testing.T) brokertest.Faulty {
			nats := services.StartNATS(t, nil)
			proxy := services.NewProxy(t, nats.Address())
			return brokertest.Faulty{
				Server: serve(proxy.Replace(nats.Address()), nats.Address()),
				Cut:    proxy.Cut, Swallow: proxy.SwallowReplies, Delay: proxy.Delay, Restore: proxy.Restore,
				Restart: func() {
					nats.Kill()
					nats.Restart()
				},
			}
		},
	}
}

// serve opens brokers at address and does the rest at direct.
func serve(address, direct string) brokertest.Server {
	return brokertest.Server{
		Open: func(t testing.TB) localtable.Broker {
			broker, err := nats.Open(context.Background(), nats.Config{URLs: []string{address}, PublishTimeout: publishTimeout})
			require.NoError(t, err)
			return broker
		},
		Create: func(t testing.TB, topic string, maxBytes int) { createStream(t, direct, topic, maxBytes) },
		Read:   func(t testing.TB, topic string) []brokertest.Record { return readStream(t, direct, topic) },
	}
}

func client(t testing.TB, address string) (jetstream.JetStream, func()) {
	conn, err := natsclient.Connect(address)
	require.NoError(t, err)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js, conn.Close
}

func createStream(t testing.TB, address, topic string, maxBytes int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	js, done := client(t, address)
	defer done()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: strings.ReplaceAll(topic, ".", "_"), Subjects: []string{topic}, MaxMsgSize: int32(maxBytes),
	})
	require.NoError(t, err)
}

// readStream reads the stream's messages by their numbers, without a consumer.
func readStream(t testing.TB, address, topic string) []brokertest.Record {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	js, done := client(t, address)
	defer done()
	stream, err := js.Stream(ctx, strings.ReplaceAll(topic, ".", "_"))
	require.NoError(t, err)
	state := stream.CachedInfo().State
	var records []brokertest.Record
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		require.NoError(t, err)
		record := brokertest.Record{Body: msg.Data, Headers: map[string]string{}}
		for name, values := range msg.Header {
			require.Len(t, values, 1)
			record.Headers[name] = values[0]
		}
		records = append(records, record)
	}
	return records
}

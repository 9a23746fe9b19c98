package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/brokertest"
)

var _ localtable.Broker = (*kafka.Broker)(nil)

const publishTimeout = 2 * time.Second

func TestBroker(t *testing.T) { brokertest.Run(t, harness(t)) }

func TestBrokerRestarts(t *testing.T) {
	t.Parallel()
	brokertest.RunRestarts(t, harness(t))
}

func harness(t *testing.T) brokertest.Harness {
	return brokertest.Harness{
		Server:    server(services.Kafka(t)),
		Timeout:   publishTimeout,
		Oversized: 2 << 20,
		Faulty: func(t *testing.T) brokertest.Faulty {
			kafka, proxy := services.StartKafkaProxied(t, nil)
			return brokertest.Faulty{
				Server: server(kafka.Address()),
				Cut:    proxy.Cut, Swallow: proxy.SwallowReplies, Delay: proxy.Delay, Restore: proxy.Restore,
				Restart: func() {
					kafka.Kill()
					kafka.Restart()
				},
			}
		},
	}
}

func server(address string) brokertest.Server {
	return brokertest.Server{
		Open: func(t testing.TB) localtable.Broker {
			broker, err := kafka.Open(context.Background(), kafka.Config{Brokers: []string{address}, PublishTimeout: publishTimeout})
			require.NoError(t, err)
			return broker
		},
		Create: func(t testing.TB, topic string, maxBytes int) { createTopic(t, address, topic, maxBytes) },
		Read:   func(t testing.TB, topic string) []brokertest.Record { return readTopic(t, address, topic) },
	}
}

func client(t testing.TB, address string, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.MetadataMinAge(50*time.Millisecond))...)
	require.NoError(t, err)
	return client
}

const partitions = 3

func createTopic(t testing.TB, address, topic string, maxBytes int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := client(t, address)
	defer client.Close()
	config := map[string]*string{}
	if maxBytes > 0 {
		config["max.message.bytes"] = kadm.StringPtr(fmt.Sprint(maxBytes))
	}
	admin := kadm.NewClient(client)
	_, err := admin.CreateTopic(ctx, partitions, 1, config, topic)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		topics, err := admin.ListTopics(ctx, topic)
		return err == nil && topics.Has(topic) && len(topics[topic].Partitions) == partitions && topics.Error() == nil
	}, 30*time.Second, 20*time.Millisecond)
}

// readTopic reads from offset 0 to the end of each partition, without a group.
func readTopic(t testing.TB, address, topic string) []brokertest.Record {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := client(t, address, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	left := int64(0)
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	var records []brokertest.Record
	for left > int64(len(records)) {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			record := brokertest.Record{Body: r.Value, Null: r.Value == nil, Headers: map[string]string{}}
			for _, header := range r.Headers {
				record.Headers[header.Key] = string(header.Value)
			}
			records = append(records, record)
		})
	}
	return records
}

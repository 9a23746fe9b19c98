package kafka_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/internal/churntest"
	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/subscribertest"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ consumer.Subscriber = (*kafka.Subscriber)(nil)

func TestSubscriber(t *testing.T) {
	address := services.Kafka(t)
	producer := client(t, address)
	t.Cleanup(producer.Close)
	subscribertest.Run(t, subscribertest.Harness{
		Abilities: subscribertest.Abilities{Order: true},
		Topic: func(t testing.TB) string {
			topic := "subscriber-" + txmsg.NewID()
			createTopic(t, address, topic, 0)
			return topic
		},
		Publish: publish(producer),
		PublishRaw: func(ctx context.Context, topic string, body []byte, headers map[string]string) error {
			return produce(ctx, producer, "", topic, body, headers)
		},
		Subscriber: func(t testing.TB, group string, topics ...string) consumer.Subscriber {
			return subscriber(t, kafka.SubscriberConfig{Brokers: []string{address}, Group: group, Topics: topics})
		},
		Away: func(t testing.TB, group, topic string) (consumer.Subscriber, func()) {
			proxy := services.NewProxy(t, address)
			proxy.Cut()
			return subscriber(t, kafka.SubscriberConfig{Brokers: []string{proxy.Addr()}, Group: group, Topics: []string{topic}}), proxy.Restore
		},
		Patience: time.Minute,
	})
}

func TestSubscriberChurn(t *testing.T) { churntest.Run(t, churn(t, services.Kafka(t))) }

func TestSubscriberSurvivesItsServer(t *testing.T) {
	t.Parallel()
	kafka := services.StartKafka(t, nil)
	churntest.RunKill(t, churn(t, kafka.Address()), kafka.Kill, kafka.Restart)
}

func churn(t *testing.T, address string) churntest.Server {
	producer := client(t, address)
	t.Cleanup(producer.Close)
	return churntest.Server{
		Create:  func(t testing.TB, topic string) { createTopic(t, address, topic, 0) },
		Publish: publish(producer),
		Subscriber: func(t testing.TB, group string, buffer int, topics ...string) consumer.Subscriber {
			return subscriber(t, kafka.SubscriberConfig{
				Brokers: []string{address}, Group: group, Topics: topics, Buffer: buffer,
				SessionTimeout: 6 * time.Second, CommitInterval: 200 * time.Millisecond, RetryPause: 5 * time.Millisecond,
			})
		},
	}
}

func subscriber(t testing.TB, cfg kafka.SubscriberConfig) consumer.Subscriber {
	subscriber, err := kafka.NewSubscriber(cfg)
	require.NoError(t, err)
	return subscriber
}

func publish(producer *kgo.Client) func(ctx context.Context, msgs ...txmsg.Message) error {
	return func(ctx context.Context, msgs ...txmsg.Message) error {
		for _, m := range msgs {
			if err := produce(ctx, producer, m.Key, m.Topic, m.Body, maps.Collect(txmsg.ToWire(m))); err != nil {
				return err
			}
		}
		return nil
	}
}

func produce(ctx context.Context, producer *kgo.Client, key, topic string, body []byte, headers map[string]string) error {
	record := &kgo.Record{Topic: topic, Value: body}
	if key != "" {
		record.Key = []byte(key)
	}
	for name, value := range headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return producer.ProduceSync(ctx, record).FirstErr()
}

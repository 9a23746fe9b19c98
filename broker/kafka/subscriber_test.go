package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

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
	raw := func(ctx context.Context, key, topic string, body []byte, headers map[string]string) error {
		record := &kgo.Record{Topic: topic, Value: body}
		if key != "" {
			record.Key = []byte(key)
		}
		for name, value := range headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		return producer.ProduceSync(ctx, record).FirstErr()
	}
	subscriber := func(t testing.TB, brokers, group string, topics ...string) consumer.Subscriber {
		subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: []string{brokers}, Group: group, Topics: topics})
		require.NoError(t, err)
		return subscriber
	}
	subscribertest.Run(t, subscribertest.Harness{
		Abilities: subscribertest.Abilities{Order: true},
		Topic: func(t testing.TB) string {
			topic := "subscriber-" + txmsg.NewID()
			createTopic(t, address, topic, 0)
			return topic
		},
		Publish: func(ctx context.Context, msgs ...txmsg.Message) error {
			for _, m := range msgs {
				if err := raw(ctx, m.Key, m.Topic, m.Body, txmsg.ToWire(m)); err != nil {
					return err
				}
			}
			return nil
		},
		PublishRaw: func(ctx context.Context, topic string, body []byte, headers map[string]string) error {
			return raw(ctx, "", topic, body, headers)
		},
		Subscriber: func(t testing.TB, group string, topics ...string) consumer.Subscriber {
			return subscriber(t, address, group, topics...)
		},
		Away: func(t testing.TB, group, topic string) (consumer.Subscriber, func()) {
			proxy := services.NewProxy(t, address)
			proxy.Cut()
			return subscriber(t, proxy.Addr(), group, topic), proxy.Restore
		},
		Patience: time.Minute,
	})
}

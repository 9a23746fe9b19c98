package nats_test

import (
	"context"
	"testing"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/subscribertest"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ consumer.Subscriber = (*nats.Subscriber)(nil)

func TestSubscriber(t *testing.T) {
	address := services.NATS(t)
	js, done := client(t, address)
	t.Cleanup(done)
	raw := func(ctx context.Context, topic string, body []byte, headers map[string]string) error {
		msg := natsclient.NewMsg(topic)
		msg.Data = body
		for name, value := range headers {
			msg.Header[name] = []string{value}
		}
		_, err := js.PublishMsg(ctx, msg)
		return err
	}
	subscriber := func(t testing.TB, url, group string, topics ...string) consumer.Subscriber {
		subscriber, err := nats.NewSubscriber(nats.SubscriberConfig{URLs: []string{url}, Group: group, Topics: topics, Bucket: "subscribertest"})
		require.NoError(t, err)
		return subscriber
	}
	subscribertest.Run(t, subscribertest.Harness{
		Abilities: subscribertest.Abilities{Order: true, Standby: true},
		Topic: func(t testing.TB) string {
			topic := "subscriber-" + txmsg.NewID()
			createStream(t, address, topic, 0)
			return topic
		},
		Publish: func(ctx context.Context, msgs ...txmsg.Message) error {
			for _, m := range msgs {
				if err := raw(ctx, m.Topic, m.Body, txmsg.ToWire(m)); err != nil {
					return err
				}
			}
			return nil
		},
		PublishRaw: raw,
		Subscriber: func(t testing.TB, group string, topics ...string) consumer.Subscriber {
			return subscriber(t, address, group, topics...)
		},
		Away: func(t testing.TB, group, topic string) (consumer.Subscriber, func()) {
			proxy := services.NewProxy(t, address)
			proxy.Cut()
			return subscriber(t, proxy.Replace(address), group, topic), proxy.Restore
		},
		Patience: time.Minute,
	})
}

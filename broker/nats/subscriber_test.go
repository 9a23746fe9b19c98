package nats_test

import (
	"context"
	"maps"
	"testing"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/internal/churntest"
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
	subscribertest.Run(t, subscribertest.Harness{
		Abilities: subscribertest.Abilities{Order: true, Standby: true},
		Topic: func(t testing.TB) string {
			topic := "subscriber-" + txmsg.NewID()
			createStream(t, address, topic, 0)
			return topic
		},
		Publish: publish(js),
		PublishRaw: func(ctx context.Context, topic string, body []byte, headers map[string]string) error {
			return produce(ctx, js, topic, body, headers)
		},
		Subscriber: func(t testing.TB, group string, topics ...string) consumer.Subscriber {
			return subscriber(t, nats.SubscriberConfig{URLs: []string{address}, Group: group, Topics: topics})
		},
		Away: func(t testing.TB, group, topic string) (consumer.Subscriber, func()) {
			proxy := services.NewProxy(t, address)
			proxy.Cut()
			return subscriber(t, nats.SubscriberConfig{URLs: []string{proxy.Replace(address)}, Group: group, Topics: []string{topic}}), proxy.Restore
		},
		Patience: time.Minute,
	})
}

func TestSubscriberChurn(t *testing.T) { churntest.Run(t, churn(t, services.NATS(t))) }

func TestSubscriberSurvivesItsServer(t *testing.T) {
	t.Parallel()
	nats := services.StartNATS(t, nil)
	churntest.RunKill(t, churn(t, nats.Address()), nats.Kill, nats.Restart)
}

func churn(t *testing.T, address string) churntest.Server {
	js, done := client(t, address)
	t.Cleanup(done)
	return churntest.Server{
		Create:  func(t testing.TB, topic string) { createStream(t, address, topic, 0) },
		Publish: publish(js),
		Subscriber: func(t testing.TB, group string, buffer int, topics ...string) consumer.Subscriber {
			return subscriber(t, nats.SubscriberConfig{
				URLs: []string{address}, Group: group, Topics: topics, Buffer: buffer,
				SessionTimeout: 2 * time.Second, CommitInterval: 200 * time.Millisecond, RetryPause: 5 * time.Millisecond,
			})
		},
	}
}

// subscriber has a bucket of its own on a server that others use too.
func subscriber(t testing.TB, cfg nats.SubscriberConfig) consumer.Subscriber {
	cfg.Bucket = "subscriber-tests"
	subscriber, err := nats.NewSubscriber(cfg)
	require.NoError(t, err)
	return subscriber
}

func publish(js jetstream.JetStream) func(ctx context.Context, msgs ...txmsg.Message) error {
	return func(ctx context.Context, msgs ...txmsg.Message) error {
		for _, m := range msgs {
			if err := produce(ctx, js, m.Topic, m.Body, maps.Collect(txmsg.ToWire(m))); err != nil {
				return err
			}
		}
		return nil
	}
}

func produce(ctx context.Context, js jetstream.JetStream, topic string, body []byte, headers map[string]string) error {
	msg := natsclient.NewMsg(topic)
	msg.Data = body
	for name, value := range headers {
		msg.Header[name] = []string{value}
	}
	_, err := js.PublishMsg(ctx, msg)
	return err
}

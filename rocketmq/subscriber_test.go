package rocketmq

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/subscribertest"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestSubscriber(t *testing.T) {
	nameServer := services.RocketMQ(t)
	plain := newPlainProducer(t, nameServer)
	subscriber := func(t testing.TB, group string, topics ...string) consumer.Subscriber {
		s, err := NewSubscriber(SubscriberConfig{NameServers: []string{nameServer}, Group: group, Topics: topics})
		require.NoError(t, err)
		return s
	}
	subscribertest.Run(t, subscribertest.Harness{
		Abilities:  subscribertest.Abilities{Order: true},
		Topic:      func(t testing.TB) string { return rocketmqtest.Topic(t, nameServer, 4) },
		Subscriber: subscriber,
		Publish: func(ctx context.Context, msgs ...txmsg.Message) error {
			for _, m := range msgs {
				if err := plain.send(ctx, plainMessage(m)); err != nil {
					return err
				}
			}
			return nil
		},
		PublishRaw: func(ctx context.Context, topic string, body []byte, headers map[string]string) error {
			m := primitive.NewMessage(topic, body)
			for name, value := range headers {
				m.WithProperty(name, value)
			}
			return plain.send(ctx, m)
		},
		Away: func(t testing.TB, group, topic string) (consumer.Subscriber, func()) {
			proxy := services.NewProxy(t, nameServer)
			proxy.Cut()
			s, err := NewSubscriber(SubscriberConfig{NameServers: []string{proxy.Addr()}, Group: group, Topics: []string{topic}})
			require.NoError(t, err)
			return s, proxy.Restore
		},
	})
}

// plainProducer is a producer that is none of the product's.
type plainProducer struct {
	client interface {
		SendSync(ctx context.Context, m ...*primitive.Message) (*primitive.SendResult, error)
	}
}

// newPlainProducer leaves the instance name at the library's default, as most programs do.
func newPlainProducer(t *testing.T, nameServer string) *plainProducer {
	client, err := producer.NewDefaultProducer(
		producer.WithGroupName("plain-"+txmsg.NewID()),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
	)
	require.NoError(t, err)
	require.NoError(t, client.Start())
	t.Cleanup(func() { require.NoError(t, client.Shutdown()) })
	return &plainProducer{client}
}

func (p *plainProducer) send(ctx context.Context, m *primitive.Message) error {
	result, err := p.client.SendSync(ctx, m)
	if err == nil && result.Status != primitive.SendOK {
		err = errors.New(fmt.Sprint("send status ", result.Status))
	}
	return err
}

// TestSubscriberStoresOffsets loses all offsets that the library sends: on the connection on which it sends heartbeats.
func TestSubscriberStoresOffsets(t *testing.T) {
	t.Parallel()
	nameServer := services.RocketMQ(t)
	brokers, err := remoting.Brokers(t.Context(), nameServer)
	require.NoError(t, err)
	require.Len(t, brokers, 1)
	const updateOffset, heartbeat = 15, 34
	var passed atomic.Bool
	lossy := editFrames(t, brokers[0], func() (requests, answers edit) {
		library := false
		return func(frame []byte) []byte {
			var header struct{ Code int }
			length := binary.BigEndian.Uint32(frame) & 0xffffff
			_ = json.Unmarshal(frame[4:4+length], &header)
			if header.Code == heartbeat {
				library = true
				passed.Store(true)
			}
			if library && header.Code == updateOffset {
				return nil
			}
			for flags, withoutOffset := range map[string]string{`"sysFlag":"3"`: `"sysFlag":"2"`, `"sysFlag":"7"`: `"sysFlag":"6"`} {
				frame = bytes.ReplaceAll(frame, []byte(flags), []byte(withoutOffset)) // of a fetch
			}
			return frame
		}, keep
	})

	topic, group := rocketmqtest.Topic(t, nameServer, 4), "test-"+txmsg.NewID()
	plain := newPlainProducer(t, nameServer)
	// run returns the IDs that it acknowledged; it stops when they are so many.
	run := func(nameServer string, count int) []string {
		s, err := NewSubscriber(SubscriberConfig{NameServers: []string{nameServer}, Group: group, Topics: []string{topic}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var mu sync.Mutex
		var ids []string
		require.NoError(t, s.Run(ctx, func(_ context.Context, d txmsg.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if ids = append(ids, d.Message.ID); len(ids) == count {
				cancel()
			}
			return nil
		}))
		return ids
	}
	send := func(ids ...string) []string {
		for _, id := range ids { // in one queue, so that one after the other is delivered
			require.NoError(t, plain.send(t.Context(), plainMessage(txmsg.Message{ID: id, Topic: topic, Key: "k"})))
		}
		return ids
	}
	first := send("1", "2", "3")
	require.Equal(t, first, run(redirect(t, nameServer, brokers[0], lossy), len(first)))
	require.True(t, passed.Load(), "the library's connection leads past the proxy")
	then := send("4", "5")
	require.Equal(t, then, run(nameServer, len(then)))
}

func TestSubscriberLeavesNoGoroutine(t *testing.T) {
	nameServer := services.RocketMQ(t)
	topic := rocketmqtest.Topic(t, nameServer, 4)
	plain := newPlainProducer(t, nameServer)
	require.NoError(t, plain.send(t.Context(), plainMessage(txmsg.Message{ID: "a", Topic: topic})))
	before := goleak.IgnoreCurrent()
	s, err := NewSubscriber(SubscriberConfig{NameServers: []string{nameServer}, Group: "test-" + txmsg.NewID(), Topics: []string{topic}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, s.Run(ctx, func(context.Context, txmsg.Delivery) error {
		cancel()
		return nil
	}))
	require.NoError(t, goleak.Find(append(rocketmqtest.Leaks(), before)...))
}

package nats_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/txmsg"
)

// seen keeps what a subscriber delivered.
type seen struct {
	mu        sync.Mutex
	sequences []int64
}

func (s *seen) deliver(_ context.Context, d txmsg.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequences = append(s.sequences, d.Message.Sequence)
	return nil
}

func (s *seen) list() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int64{}, s.sequences...)
}

func (s *seen) await(t *testing.T, want ...int64) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.list()) >= len(want) }, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, want, s.list())
}

func (s *seen) awaitCount(t *testing.T, count int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.list()) >= count }, 60*time.Second, 5*time.Millisecond)
}

// start runs subscriber; the function it returns ends it.
func start(t *testing.T, subscriber consumer.Subscriber, deliver func(context.Context, txmsg.Delivery) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- subscriber.Run(ctx, deliver) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return stop
}

func numbered(topic string, from, to int64) []txmsg.Message {
	var msgs []txmsg.Message
	for n := from; n <= to; n++ {
		msgs = append(msgs, txmsg.Message{ID: txmsg.NewID(), Topic: topic, Key: "key", Sequence: n})
	}
	return msgs
}

func upTo(from, to int64) []int64 {
	var list []int64
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

func TestTakeoverFromAMemberWithoutSignOfLife(t *testing.T) {
	address := services.NATS(t)
	js, done := client(t, address)
	defer done()
	topic, group := "takeover-"+txmsg.NewID(), "group"+txmsg.NewID()
	createStream(t, address, topic, 0)
	proxy := services.NewProxy(t, address)
	cfg := nats.SubscriberConfig{
		Group: group, Topics: []string{topic}, CommitInterval: 100 * time.Millisecond, SessionTimeout: time.Second, Timeout: time.Second,
	}
	cutOff, standby := cfg, cfg
	cutOff.URLs, standby.URLs = []string{proxy.Replace(address)}, []string{address}

	require.NoError(t, publish(js)(t.Context(), numbered(topic, 1, 5)...))
	one, two := &seen{}, &seen{}
	start(t, subscriber(t, cutOff), one.deliver)
	one.await(t, upTo(1, 5)...)
	awaitPosition(t, js, group, topic, `"seq":5`)
	stop := start(t, subscriber(t, standby), two.deliver)

	proxy.Cut()
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 6, 8)...))
	two.await(t, upTo(6, 8)...)
	proxy.Restore()
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 9, 10)...))
	two.await(t, upTo(6, 10)...)

	// The first member has come back as the one that stands by: what it believed to own never moves the position.
	awaitPosition(t, js, group, topic, `"seq":10`)
	require.NoError(t, stop())
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 11, 12)...))
	one.await(t, append(upTo(1, 5), 11, 12)...)
}

// awaitPosition waits until the bucket's record of the group holds text.
func awaitPosition(t *testing.T, js jetstream.JetStream, group, topic, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		bucket, err := js.KeyValue(t.Context(), "subscriber-tests")
		if err != nil {
			return false
		}
		entry, err := bucket.Get(t.Context(), group+"="+topic)
		return err == nil && bytes.Contains(entry.Value(), []byte(text))
	}, 30*time.Second, 5*time.Millisecond)
}

func TestNothingIsReadTwiceOrSkippedWhenTheConnectionBreaks(t *testing.T) {
	address := services.NATS(t)
	js, done := client(t, address)
	defer done()
	topic := "broken-" + txmsg.NewID()
	createStream(t, address, topic, 0)
	proxy := services.NewProxy(t, address)
	got := &seen{}
	stop := start(t, subscriber(t, nats.SubscriberConfig{
		URLs: []string{proxy.Replace(address)}, Group: "group" + txmsg.NewID(), Topics: []string{topic}, SessionTimeout: time.Minute, Timeout: time.Second,
	}), got.deliver)
	const each = 300
	for round := range int64(4) {
		published := make(chan error, 1)
		go func() {
			published <- publish(js)(context.Background(), numbered(topic, round*each+1, (round+1)*each)...)
		}()
		got.awaitCount(t, int(round*each)+50)
		if round%2 == 0 {
			proxy.Cut()
		} else {
			proxy.SwallowReplies()
		}
		require.NoError(t, <-published)
		proxy.Restore()
		got.awaitCount(t, int(round+1)*each)
	}
	require.NoError(t, stop())
	require.Equal(t, upTo(1, 4*each), got.list())
}

func TestStreamMadeAgainIsReadFromItsBeginning(t *testing.T) {
	address := services.NATS(t)
	js, done := client(t, address)
	defer done()
	topic := "again-" + txmsg.NewID()
	createStream(t, address, topic, 0)
	got := &seen{}
	start(t, subscriber(t, nats.SubscriberConfig{URLs: []string{address}, Group: "group" + txmsg.NewID(), Topics: []string{topic}}), got.deliver)
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 1, 3)...))
	got.await(t, 1, 2, 3)
	require.NoError(t, js.DeleteStream(t.Context(), topic))
	createStream(t, address, topic, 0)
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 4, 5)...))
	got.await(t, 1, 2, 3, 4, 5)
}

func TestNewestStartsBehindWhatIsThere(t *testing.T) {
	address := services.NATS(t)
	js, done := client(t, address)
	defer done()
	topic, group := "newest-"+txmsg.NewID(), "group"+txmsg.NewID()
	createStream(t, address, topic, 0)
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 1, 3)...))
	got := &seen{}
	start(t, subscriber(t, nats.SubscriberConfig{URLs: []string{address}, Group: group, Topics: []string{topic}, Start: "newest"}), got.deliver)
	awaitPosition(t, js, group, topic, `"seq":3`)
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 4, 5)...))
	got.await(t, 4, 5)
}

func TestStreamThatForgetsWhatIsAcknowledgedIsRefused(t *testing.T) {
	address := services.NATS(t)
	js, done := client(t, address)
	defer done()
	topic := "work-" + txmsg.NewID()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = subscriber(t, nats.SubscriberConfig{URLs: []string{address}, Group: "group", Topics: []string{topic}}).Run(ctx, (&seen{}).deliver)
	require.ErrorContains(t, err, "must keep messages by limits, got WorkQueue retention")
	require.ErrorContains(t, err, topic)
}

// The reader renews its request every few seconds; nothing about that is worth a line.
func TestAnIdleSubscriberIsSilent(t *testing.T) {
	address := services.NATS(t)
	topic := "idle-" + txmsg.NewID()
	createStream(t, address, topic, 0)
	var log services.Log
	js, done := client(t, address)
	defer done()
	got := &seen{}
	stop := start(t, subscriber(t, nats.SubscriberConfig{
		URLs: []string{address}, Group: "group" + txmsg.NewID(), Topics: []string{topic}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}), got.deliver)
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 1, 1)...))
	got.await(t, 1)
	<-time.After(6 * time.Second) // more than one request
	require.NoError(t, publish(js)(t.Context(), numbered(topic, 2, 2)...))
	got.await(t, 1, 2)
	require.NoError(t, stop())
	require.Empty(t, log.String())
}

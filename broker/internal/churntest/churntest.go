// Package churntest tests what subscribers of this module's brokers must hold while members of a group and servers come
// and go. It adds to the conformance suite for subscribers, which asks less of time and servers.
package churntest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Server is a running broker, and how its subscribers are made.
type Server struct {
	Create     func(t testing.TB, topic string)
	Publish    func(ctx context.Context, msgs ...txmsg.Message) error
	Subscriber func(t testing.TB, group string, buffer int, topics ...string) consumer.Subscriber
}

// patience bounds every wait for what must happen.
const patience = 90 * time.Second

// Run runs the tests that do the server no harm. They count goroutines, so nothing else may run beside them.
func Run(t *testing.T, s Server) {
	t.Run("members come and go", func(t *testing.T) { testMembers(t, s) })
	t.Run("a stop behind a stuck key", func(t *testing.T) { testStuckKey(t, s) })
	t.Run("a small buffer", func(t *testing.T) { testBuffer(t, s) })
	t.Run("C61 a topic that is created later", func(t *testing.T) { testLateTopic(t, s) })
	t.Run("Run leaves no goroutine", func(t *testing.T) { testGoroutines(t, s) })
}

// testMembers has members join, and every second time the oldest leave, while messages with some refusals flow.
func testMembers(t *testing.T, s Server) {
	const keys, each, rounds = 10, 200, 6
	topic, group, ledger := create(t, s), newGroup(), newLedger()
	ledger.refuseEvery = 7
	publishing := ledger.publish(t, s, topic, keys, each)
	var members []*member
	for round := range rounds {
		members = append(members, run(t, s.Subscriber(t, group, 50, topic), ledger.deliver))
		ledger.more(t, keys*each/(rounds+2))
		if round%2 == 1 {
			members[0].stop(t)
			members = members[1:]
		}
	}
	<-publishing
	ledger.awaitAll(t, keys, each)
	ledger.requireOrder(t, keys, each)
	require.Empty(t, ledger.overlaps, "keys with calls in two members at once")
}

// testStuckKey stops a subscriber that has acknowledged much behind a message that it has not.
func testStuckKey(t *testing.T, s Server) {
	topic, group, ledger := create(t, s), newGroup(), newLedger()
	<-ledger.publish(t, s, topic, 10, 10)
	m := run(t, s.Subscriber(t, group, 1000, topic), func(ctx context.Context, d txmsg.Delivery) error {
		if d.Message.ID == id(0, 2) {
			return errors.New("stuck")
		}
		return ledger.deliver(ctx, d)
	})
	ledger.await(t, "all other keys", func() bool { return len(ledger.first) == 1+9*10 })
	m.stop(t)
	again := run(t, s.Subscriber(t, group, 1000, topic), ledger.deliver)
	ledger.awaitAll(t, 10, 10)
	again.stop(t)
	ledger.requireOrder(t, 10, 10)
}

// testBuffer counts goroutines: one for each message that waits for its call.
func testBuffer(t *testing.T, s Server) {
	topic, ledger := create(t, s), newLedger()
	var msgs []txmsg.Message
	for i := range 3000 {
		msgs = append(msgs, txmsg.Message{ID: fmt.Sprint(i), Topic: topic})
	}
	require.NoError(t, s.Publish(t.Context(), msgs...))
	before := runtime.NumGoroutine()
	release := make(chan struct{})
	run(t, s.Subscriber(t, newGroup(), 20, topic), func(ctx context.Context, d txmsg.Delivery) error {
		<-release
		return ledger.deliver(ctx, d)
	})
	most, grown := 0, time.Now()
	require.Eventually(t, func() bool { // until it has not grown for a while
		if now := runtime.NumGoroutine() - before; now > most {
			most, grown = now, time.Now()
		}
		return most > 20 && time.Since(grown) > time.Second
	}, patience, time.Millisecond)
	close(release)
	require.Less(t, most, 300, "messages that wait in memory")
	ledger.await(t, "every message", func() bool { return len(ledger.first) == len(msgs) })
}

func testLateTopic(t *testing.T, s Server) {
	there, late, ledger := create(t, s), newTopic(), newLedger()
	run(t, s.Subscriber(t, newGroup(), 100, there, late), ledger.deliver)
	<-ledger.publish(t, s, there, 1, 3)
	ledger.awaitAll(t, 1, 3) // the missing one holds nothing up
	s.Create(t, late)
	m := txmsg.Message{ID: "late", Topic: late, Key: "late", Sequence: 1}
	require.NoError(t, s.Publish(t.Context(), m))
	ledger.await(t, "the late topic's message", func() bool { return ledger.first["late"] })
}

func testGoroutines(t *testing.T, s Server) {
	topic, ledger := create(t, s), newLedger()
	<-ledger.publish(t, s, topic, 5, 5)
	before := goleak.IgnoreCurrent()
	m := run(t, s.Subscriber(t, newGroup(), 100, topic), ledger.deliver)
	ledger.awaitAll(t, 5, 5)
	m.stop(t)
	goleak.VerifyNone(t, before)
}

// RunKill tests a subscriber whose server is ended without warning by kill and started again by restart.
func RunKill(t *testing.T, s Server, kill, restart func()) {
	topic, group, ledger := create(t, s), newGroup(), newLedger()
	publishing := ledger.publish(t, s, topic, 10, 200)
	m := run(t, s.Subscriber(t, group, 100, topic), ledger.deliver)
	ledger.more(t, 200)
	kill()
	restart()
	<-publishing
	ledger.awaitAll(t, 10, 200)
	ledger.requireOrder(t, 10, 200)

	kill()
	begin := time.Now()
	m.stop(t)
	require.Less(t, time.Since(begin), 30*time.Second, "a stop must not wait for a server that is gone")
	restart()
	again := run(t, s.Subscriber(t, group, 100, topic), ledger.deliver)
	m2 := txmsg.Message{ID: "after", Topic: topic, Key: "after", Sequence: 1}
	require.NoError(t, publishUntil(t.Context(), s, m2))
	ledger.await(t, "a message after it all", func() bool { return ledger.first["after"] })
	again.stop(t)
}

func create(t *testing.T, s Server) string {
	topic := newTopic()
	s.Create(t, topic)
	return topic
}

func newTopic() string { return "churn-" + txmsg.NewID() }

func newGroup() string { return "churn-" + strings.ReplaceAll(txmsg.NewID(), "-", "") }

// member is a running subscriber.
type member struct {
	cancel context.CancelFunc
	done   chan error
}

func run(t *testing.T, subscriber consumer.Subscriber, deliver func(context.Context, txmsg.Delivery) error) *member {
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{cancel: cancel, done: make(chan error, 1)}
	go func() { m.done <- subscriber.Run(ctx, deliver) }()
	t.Cleanup(func() { m.stop(t) })
	return m
}

// stop may be called again.
func (m *member) stop(t *testing.T) {
	t.Helper()
	m.cancel()
	select {
	case err := <-m.done:
		require.NoError(t, err)
		m.done <- nil
	case <-time.After(patience):
		require.Fail(t, "Run did not return")
	}
}

func publishUntil(ctx context.Context, s Server, m txmsg.Message) error {
	for {
		err := s.Publish(ctx, m)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func id(key, sequence int) string { return fmt.Sprintf("key %d/%d", key, sequence) }

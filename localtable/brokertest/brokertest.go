package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Harness is what the suite needs to know of one broker.
type Harness struct {
	// Server is shared with other tests; the suite does it no harm.
	Server
	// Timeout is the bound on Publish that the brokers from Open are configured with. Short, say two seconds: outages
	// are waited for.
	Timeout time.Duration
	// Oversized is the length of a body that the configured limit refuses.
	Oversized int
	// Deduplicates is set where storing a message again under the same ID leaves one copy.
	Deduplicates bool
	// Faulty starts a server that belongs to the suite, to be harmed.
	Faulty func(t *testing.T) Faulty
}

// Server is a running broker and the ways to it.
type Server struct {
	// Open opens the broker under test. The suite closes it.
	Open func(t testing.TB) localtable.Broker
	// Create creates a topic and returns when every part of the server knows it. maxBytes, if not 0, is the largest
	// message that the server takes for this topic.
	Create func(t testing.TB, topic string, maxBytes int)
	// Read returns what topic holds, messages of one key in their stored order, by a plain client of the broker.
	Read func(t testing.TB, topic string) []Record
}

// Faulty is a server that the suite may harm. Its functions are called from the test's goroutine.
type Faulty struct {
	Server
	Cut     func()                // breaks all connections and refuses new ones
	Swallow func()                // lets requests through and drops the replies
	Delay   func(d time.Duration) // holds every reply back
	Restore func()                // ends all of the above; open connections may break
	Restart func()                // ends the server without warning and starts it again on its data
}

// Record is a message as the broker stored it.
type Record struct {
	Body    []byte
	Null    bool // the broker tells a null body from an empty one, and this is null
	Headers map[string]string
}

// Run runs the suite, except for what RunRestarts does. It counts goroutines, so nothing else may run beside it.
func Run(t *testing.T, h Harness) {
	t.Run("store", func(t *testing.T) { testStore(t, h) })
	t.Run("refuse", func(t *testing.T) { testRefuse(t, h) })
	t.Run("route", func(t *testing.T) { testRoute(t, h) })
	t.Run("close", func(t *testing.T) { testClose(t, h) })
	t.Run("outage", func(t *testing.T) { testOutage(t, h, h.Faulty(t)) })
}

// RunRestarts runs the part of the suite that restarts the server again and again. Other tests may run beside it.
func RunRestarts(t *testing.T, h Harness) { testRestarts(t, h, h.Faulty(t)) }

// slack is what a bounded call may take beyond its bound on a busy machine.
const slack = 5 * time.Second

func open(t *testing.T, s Server) localtable.Broker {
	t.Helper()
	broker := s.Open(t)
	t.Cleanup(func() { _ = broker.Close() })
	return broker
}

func create(t *testing.T, s Server) string {
	t.Helper()
	topic := newTopic()
	s.Create(t, topic, 0)
	return topic
}

func newTopic() string { return "brokertest-" + strings.ToLower(rand.Text()[:12]) }

func message(topic, body string) txmsg.Message {
	return txmsg.Message{ID: txmsg.NewID(), Topic: topic, Body: []byte(body)}
}

// publish checks what holds for every call: one result a message, each of exactly one class, in bounded time.
func publish(t *testing.T, h Harness, broker localtable.Broker, msgs ...txmsg.Message) []error {
	t.Helper()
	start := time.Now()
	results := broker.Publish(context.Background(), msgs)
	require.Less(t, time.Since(start), h.Timeout+slack, "Publish must return in bounded time")
	requireClassed(t, results, len(msgs))
	return results
}

func requireClassed(t *testing.T, results []error, count int) {
	t.Helper()
	require.Len(t, results, count, "one result for each message")
	for _, err := range results {
		if err != nil {
			require.Equal(t, 1, classes(err), "an error must wrap exactly one class: %v", err)
		}
	}
}

func classes(err error) int {
	count := 0
	for _, class := range []error{txmsg.ErrOutage, txmsg.ErrRefused, txmsg.ErrTooLarge, txmsg.ErrNoRoute} {
		if errors.Is(err, class) {
			count++
		}
	}
	return count
}

func requireStored(t *testing.T, results []error) {
	t.Helper()
	for i, err := range results {
		require.NoError(t, err, "message %d", i)
	}
}

// publishUntilStored publishes m as the relay does after an outage: again and again, until it is stored.
func publishUntilStored(t *testing.T, h Harness, broker localtable.Broker, m txmsg.Message) {
	t.Helper()
	deadline := time.Now().Add(10*h.Timeout + 30*time.Second)
	for {
		err := publish(t, h, broker, m)[0]
		if err == nil {
			return
		}
		require.ErrorIs(t, err, txmsg.ErrOutage)
		require.True(t, time.Now().Before(deadline), "the broker works again, and Publish does not: %v", err)
		pause()
	}
}

// pause spaces tries out as a relay would; it is not waited on for a state.
func pause() {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

// read returns what topic holds, decoded, in stored order.
func read(t *testing.T, s Server, topic string) []txmsg.Message {
	t.Helper()
	var msgs []txmsg.Message
	for _, record := range s.Read(t, topic) {
		require.False(t, record.Null, "a body must never be null")
		m, err := txmsg.FromWire(topic, record.Body, record.Headers, "")
		require.NoError(t, err)
		msgs = append(msgs, m)
	}
	return msgs
}

func ids(msgs []txmsg.Message) []string {
	list := make([]string, len(msgs))
	for i, m := range msgs {
		list[i] = m.ID
	}
	return list
}

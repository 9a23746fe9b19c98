// Package rocketmqtest helps to test what is built on package rocketmq: topics, an independent reader, and the goroutines
// that the client library leaves behind.
package rocketmqtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Topic creates a topic of so many queues with a name of its own on every broker of the name server's cluster, and returns
// when it has a route.
func Topic(t testing.TB, nameServer string, queues int) string {
	t.Helper()
	name := "test-" + txmsg.NewID()
	CreateTopic(t, nameServer, name, queues)
	return name
}

// CreateTopic is Topic with a given name.
func CreateTopic(t testing.TB, nameServer, name string, queues int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(t, remoting.CreateTopic(ctx, nameServer, name, queues))
	require.Eventually(t, func() bool {
		missing, err := remoting.Missing(ctx, []string{nameServer}, []string{name})
		return err == nil && len(missing) == 0
	}, 20*time.Second, 10*time.Millisecond, "no route for topic %s", name)
}

// Read sends every message of a topic, from the oldest on, until ctx ends; then it closes the channel. It asks the broker for
// them itself, without the client library, without a group whose progress is stored, and in each queue's order.
func Read(ctx context.Context, t testing.TB, nameServer, topic string, queues int) <-chan *primitive.MessageExt {
	t.Helper()
	brokers, err := remoting.Brokers(ctx, nameServer)
	require.NoError(t, err)
	out := make(chan *primitive.MessageExt)
	var group sync.WaitGroup
	for _, broker := range brokers {
		for queue := range queues {
			group.Go(func() { readQueue(ctx, broker, topic, queue, out) })
		}
	}
	go func() {
		group.Wait()
		close(out)
	}()
	return out
}

func readQueue(ctx context.Context, broker, topic string, queue int, out chan<- *primitive.MessageExt) {
	group := "read-" + txmsg.NewID()
	for offset := int64(0); ctx.Err() == nil; {
		messages, next, err := remoting.Pull(ctx, broker, group, topic, queue, offset)
		if err != nil { // the broker may be on its way up or down
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		for _, m := range primitive.DecodeMessage(messages) {
			if m.Queue != nil {
				m.Queue.Topic, m.Queue.BrokerName = topic, broker
			}
			select {
			case out <- m:
			case <-ctx.Done():
				return
			}
		}
		offset = next
	}
}

const library = "github.com/apache/rocketmq-client-go/v2/"

// Leaks are the goroutines that the client library leaves behind when a messenger or subscriber has been shut down. All but
// the first end by themselves. Their number is bounded by the number of messengers and subscribers that a process makes.
func Leaks() []goleak.Option {
	functions := []string{
		// One for each messenger, for ever: it waits for checks on a channel that nobody closes.
		"producer.(*transactionProducer).checkTransactionState",
		// Those that sleep before they look whether they should end: 10 s each.
		"internal.(*rmqClient).Start.func1.1",
		"internal.(*rmqClient).Start.func1.2",
		"internal.(*rmqClient).Start.func1.3",
		"internal.(*rmqClient).Start.func1.4",
		"internal.(*rmqClient).Start.func1.5",
		// One for each name server that was asked, until its connection is idle for 2 min.
		"internal/remote.(*remotingClient).connect.func1",
		// An answer on its way into a client that is gone.
		"internal/remote.(*remotingClient).processCMD.func1",
		"internal/remote.(*remotingClient).processCMD.func2",
		// Of a subscriber: its statistics sleep until the next minute, hour and month.
		"consumer.(*statsItemSet).init.func1",
		"consumer.(*statsItemSet).init.func2",
		"consumer.(*statsItemSet).init.func3",
		"consumer.(*statsItemSet).init.func4",
		"consumer.(*statsItemSet).init.func5",
		"consumer.(*statsItemSet).init.func6",
		// Of a subscriber: it sleeps for the time that a delivery may take, 24 h.
		"consumer.(*pushConsumer).Start.func1.2",
		// Of a subscriber: a fetch that the broker holds open for up to 20 s, and what waits for its messages.
		"consumer.(*pushConsumer).Start.func1.1.1",
		"consumer.(*pushConsumer).pullMessage",
		"consumer.(*pushConsumer).pullMessage.func1",
	}
	options := make([]goleak.Option, len(functions))
	for i, function := range functions {
		options[i] = goleak.IgnoreAnyFunction(library + function)
	}
	return options
}

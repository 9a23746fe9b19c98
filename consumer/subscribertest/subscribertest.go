package subscribertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Harness is one broker and its subscriber. Its functions are called by several tests at once.
type Harness struct {
	Abilities Abilities

	// Topic creates a topic, with several partitions where the broker has them.
	Topic func(t testing.TB) string
	// Publish stores msgs in their order, in the form of [txmsg.ToWire], and returns when the broker has them. It is a
	// plain producer, not the product's.
	Publish func(ctx context.Context, msgs ...txmsg.Message) error
	// PublishRaw stores one record as a foreign producer would: these headers and no others, no key.
	PublishRaw func(ctx context.Context, topic string, body []byte, headers map[string]string) error
	// Subscriber returns a new subscriber as another process would have it. A group that the broker does not know begins
	// with the oldest message.
	Subscriber func(t testing.TB, group string, topics ...string) consumer.Subscriber

	// Away returns a subscriber whose broker cannot be reached until up is called. Nil: not tested.
	Away func(t testing.TB, group, topic string) (subscriber consumer.Subscriber, up func())
	// AckWait is the time after which the broker, left to itself, gives a message that is neither acknowledged nor refused
	// to another. 0: it has none.
	AckWait time.Duration
	// Patience bounds every wait for something that must happen. Defaults to 2 min: some brokers give a refused message, or a
	// stopped subscriber's share, to another only after tens of seconds.
	Patience time.Duration
}

// Abilities are what brokers differ in.
type Abilities struct {
	// Order: messages of one key are delivered one after the other, in the broker's order. Without it only the sentences
	// that need no order are tested.
	Order bool
	// HeadOfLine: a message whose delivery takes its time may hold back messages of other keys.
	HeadOfLine bool
	// Standby: a second subscriber of a group may get nothing while the first one runs.
	Standby bool
}

// settling is how long a test watches for something that must not happen, where nothing that comes later can prove it.
const settling = 300 * time.Millisecond

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = 2 * time.Minute
	}
	for _, topic := range []struct {
		name string
		run  func(t *testing.T, h Harness)
	}{
		{"delivery", runDelivery},
		{"foreign", runForeign},
		{"acknowledge", runAcknowledge},
		{"order", runOrder},
		{"group", runGroup},
		{"stop", runStop},
		{"outage", runOutage},
	} {
		t.Run(topic.name, func(t *testing.T) { topic.run(t, h) })
	}
}

// messages makes count messages for each of the keys, in turn: their sequence is 1, 2, … for each key.
func messages(topic string, count int, keys ...string) []txmsg.Message {
	var msgs []txmsg.Message
	for sequence := range count {
		for _, key := range keys {
			msgs = append(msgs, txmsg.Message{
				ID: txmsg.NewID(), Topic: topic, Key: key, Type: "test", Sequence: int64(sequence + 1),
				Body: fmt.Appendf(nil, "%s-%d", key, sequence+1),
			})
		}
	}
	return msgs
}

func keys(count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

func publish(t *testing.T, h Harness, msgs ...txmsg.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	require.NoError(t, h.Publish(ctx, msgs...))
}

func publishRaw(t *testing.T, h Harness, topic string, body []byte, headers map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	require.NoError(t, h.PublishRaw(ctx, topic, body, headers))
}

func newGroup() string { return "group-" + txmsg.NewID() }

func idsOf(msgs []txmsg.Message) []string {
	ids := make([]string, len(msgs))
	for i, m := range msgs {
		ids[i] = m.ID
	}
	return ids
}

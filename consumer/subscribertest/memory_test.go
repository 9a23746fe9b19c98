package subscribertest_test

import (
	"testing"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/subscribertest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestMemory(t *testing.T) {
	subscribertest.Run(t, harness(&subscribertest.Memory{}))
}

func harness(m *subscribertest.Memory) subscribertest.Harness {
	return subscribertest.Harness{
		Abilities:  subscribertest.Abilities{Order: true},
		Topic:      func(testing.TB) string { return "topic-" + txmsg.NewID() },
		Publish:    m.Publish,
		PublishRaw: m.PublishRaw,
		Subscriber: func(_ testing.TB, group string, topics ...string) consumer.Subscriber {
			return m.Subscriber(group, topics...)
		},
		Away: func(t testing.TB, group, topic string) (consumer.Subscriber, func()) {
			away := &subscribertest.Memory{}
			if err := away.Publish(t.Context(), m.Messages(topic)...); err != nil {
				t.Fatal(err)
			}
			away.SetAway(true)
			return away.Subscriber(group, topic), func() { away.SetAway(false) }
		},
	}
}

package subscribertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runGroup(t *testing.T, h Harness) {
	t.Run("each of two groups gets every message", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 10, keys(4)...)
		publish(t, h, msgs...)
		one := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		two := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		one.waitAll(t, msgs)
		two.waitAll(t, msgs)
	})

	t.Run("two subscribers of one group share the messages", func(t *testing.T) {
		t.Parallel()
		topic, group := h.Topic(t), newGroup()
		shared := &sharing{}
		one := start(t, h, h.Subscriber(t, group, topic), shared.deliver)
		two := start(t, h, h.Subscriber(t, group, topic), shared.deliver)

		var published []txmsg.Message
		var sequence int64
		for begin := time.Now(); ; {
			msgs := messages(topic, 1, keys(16)...)
			sequence++
			for i := range msgs {
				msgs[i].Sequence = sequence
			}
			publish(t, h, msgs...)
			published = append(published, msgs...)
			shared.wait(t, h.Patience, published)
			first, _ := one.snapshot()
			second, _ := two.snapshot()
			if (len(first) > 0 && len(second) > 0) || (h.Abilities.Standby && len(first)+len(second) > 0) {
				break
			}
			require.Less(t, time.Since(begin), h.Patience, "one of two subscribers got nothing")
			<-time.After(100 * time.Millisecond) // until the broker has given the second one its share
		}
		if h.Abilities.Order {
			requireOrder(t, shared.all(), 1, sequence)
		}

		one.stop(t)
		last := messages(topic, 1, keys(16)...)
		for i := range last {
			last[i].Sequence = sequence + 1
		}
		publish(t, h, last...)
		two.waitAll(t, last)
		shared.wait(t, h.Patience, last)
		if h.Abilities.Order {
			requireOrder(t, shared.all(), 1, sequence+1)
		}
	})
}

// sharing is what the subscribers of one group got together.
type sharing struct {
	mu         sync.Mutex
	deliveries []txmsg.Delivery
}

func (s *sharing) deliver(_ context.Context, d txmsg.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries = append(s.deliveries, d)
	return nil
}

func (s *sharing) all() []txmsg.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

func (s *sharing) wait(t *testing.T, patience time.Duration, msgs []txmsg.Message) {
	t.Helper()
	require.Eventually(t, func() bool { return copies(msgs, 1)(s.all()) }, patience, 5*time.Millisecond, "every message in one of the subscribers")
}

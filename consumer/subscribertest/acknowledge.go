package subscribertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runAcknowledge(t *testing.T, h Harness) {
	t.Run("what was acknowledged does not come again after a clean stop", func(t *testing.T) {
		t.Parallel()
		topic, group := h.Topic(t), newGroup()
		msgs := messages(topic, 10, keys(8)...)
		publish(t, h, msgs...)
		first := start(t, h, h.Subscriber(t, group, topic), acknowledge)
		first.waitAll(t, msgs)
		first.stop(t)

		// Each key's sentinel comes after what the key had before.
		sentinels := messages(topic, 1, keys(8)...)
		publish(t, h, sentinels...)
		second := start(t, h, h.Subscriber(t, group, topic), acknowledge)
		deliveries := second.waitAll(t, sentinels)
		if !h.Abilities.Order {
			deliveries = watch(second)
		}
		require.ElementsMatch(t, idsOf(sentinels), mapKeys(countByID(deliveries)))
	})

	t.Run("what was refused comes again as it was", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := fields(topic)
		publish(t, h, msgs...)
		refuse := refuseOnce()
		s := start(t, h, h.Subscriber(t, newGroup(), topic), func(_ context.Context, d txmsg.Delivery) error { return refuse(d) })
		deliveries := s.wait(t, "a second copy of each message", copies(msgs, 2))
		want := map[string]txmsg.Message{}
		for _, m := range msgs {
			want[m.ID] = m
		}
		for _, d := range deliveries {
			require.NoError(t, d.Malformed)
			require.True(t, want[d.Message.ID].Equal(d.Message), "published %+v, delivered %+v", want[d.Message.ID], d.Message)
		}
	})

	t.Run("what was refused before a stop comes to the next subscriber", func(t *testing.T) {
		t.Parallel()
		topic, group := h.Topic(t), newGroup()
		msgs := messages(topic, 2, keys(4)...)
		publish(t, h, msgs...)
		first := start(t, h, h.Subscriber(t, group, topic), func(ctx context.Context, d txmsg.Delivery) error { return errRefused })
		first.wait(t, "the head of each key", copies(msgs[:4], 1))
		first.stop(t)
		second := start(t, h, h.Subscriber(t, group, topic), acknowledge)
		second.waitAll(t, msgs)
	})

	if h.AckWait == 0 {
		return
	}
	t.Run("a long delivery does not come again", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 2, "slow")
		publish(t, h, msgs...)
		s := start(t, h, h.Subscriber(t, newGroup(), topic), func(_ context.Context, d txmsg.Delivery) error {
			if d.Message.Sequence == 1 {
				<-time.After(5 * h.AckWait / 2)
			}
			return nil
		})
		deliveries := s.waitAll(t, msgs)
		require.Equal(t, 1, countByID(deliveries)[msgs[0].ID], "deliveries of the slow message")
	})
}

// refuseOnce refuses the first delivery of each message.
func refuseOnce() func(d txmsg.Delivery) error {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(d txmsg.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[d.Message.ID] {
			return nil
		}
		seen[d.Message.ID] = true
		return errRefused
	}
}

// copies asks for count deliveries of each message.
func copies(msgs []txmsg.Message, count int) func([]txmsg.Delivery) bool {
	return func(deliveries []txmsg.Delivery) bool {
		counts := countByID(deliveries)
		for _, m := range msgs {
			if counts[m.ID] < count {
				return false
			}
		}
		return true
	}
}

// watch returns the deliveries after a while in which more might have come.
func watch(s *session) []txmsg.Delivery {
	<-time.After(settling)
	deliveries, _ := s.snapshot()
	return deliveries
}

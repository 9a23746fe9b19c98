package subscribertest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runOrder(t *testing.T, h Harness) {
	t.Run("several keys are delivered at once", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		publish(t, h, messages(topic, 1, keys(32)...)...)
		both := make(chan struct{})
		var entered atomic.Int32
		s := start(t, h, h.Subscriber(t, newGroup(), topic), func(context.Context, txmsg.Delivery) error {
			if entered.Add(1) == 2 {
				close(both)
			}
			return h.hold(both)
		})
		s.wait(t, "two deliver calls at once", func(d []txmsg.Delivery) bool { return len(d) >= 2 })
	})

	if !h.Abilities.HeadOfLine {
		t.Run("one key waits and the others go on", func(t *testing.T) { requireOthersGoOn(t, h) })
	}

	if !h.Abilities.Order {
		return
	}

	t.Run("a key's messages come one after the other, in order", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 50, keys(8)...)
		publish(t, h, msgs...)
		s := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		requireOrder(t, s.waitAll(t, msgs), 1, 50)
		s.requireNoOverlap(t)
	})

	t.Run("a refused message comes again before the later ones of its key", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 10, keys(4)...)
		publish(t, h, msgs...)
		refuse := refuseOnce()
		var mu sync.Mutex
		accepted := map[string][]int64{}
		s := start(t, h, h.Subscriber(t, newGroup(), topic), func(_ context.Context, d txmsg.Delivery) error {
			if d.Message.Sequence%3 == 0 {
				if err := refuse(d); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if key := d.Message.Key; !slices.Contains(accepted[key], d.Message.Sequence) {
				accepted[key] = append(accepted[key], d.Message.Sequence)
			}
			return nil
		})
		s.waitAll(t, msgs)
		s.stop(t)
		for key, sequences := range accepted {
			require.Equal(t, upTo(1, 10), sequences, "accepted of %s", key)
		}
		s.requireNoOverlap(t)
	})

	t.Run("nothing after a refused message is acknowledged", func(t *testing.T) {
		t.Parallel()
		topic, group := h.Topic(t), newGroup()
		msgs := messages(topic, 6, keys(4)...)
		publish(t, h, msgs...)
		first := start(t, h, h.Subscriber(t, group, topic), func(_ context.Context, d txmsg.Delivery) error {
			if d.Message.Sequence == 3 {
				return errRefused
			}
			return nil
		})
		var thirds []txmsg.Message
		for _, m := range msgs {
			if m.Sequence == 3 {
				thirds = append(thirds, m)
			}
		}
		first.wait(t, "the refused messages", copies(thirds[:1], 2))
		if !h.Abilities.HeadOfLine {
			first.waitAll(t, thirds)
		}
		first.stop(t)

		second := start(t, h, h.Subscriber(t, group, topic), acknowledge)
		deliveries := second.wait(t, "the refused messages and those after them", func(deliveries []txmsg.Delivery) bool {
			for _, key := range keys(4) {
				if !containsAll(firstCopies(deliveries)[key], upTo(3, 6)) {
					return false
				}
			}
			return true
		})
		for key, sequences := range firstCopies(deliveries) {
			require.True(t, slices.IsSorted(sequences), "%s after the restart: %v", key, sequences)
		}
	})
}

func requireOthersGoOn(t *testing.T, h Harness) {
	t.Parallel()
	topic, release := h.Topic(t), make(chan struct{})
	slow := messages(topic, 3, "slow")
	others := messages(topic, 3, keys(16)...)
	publish(t, h, append(slow, others...)...)
	s := start(t, h, h.Subscriber(t, newGroup(), topic), func(_ context.Context, d txmsg.Delivery) error {
		if d.Message.Key == "slow" {
			return h.hold(release)
		}
		return nil
	})
	deliveries := s.waitAll(t, others)
	if h.Abilities.Order {
		require.LessOrEqual(t, len(firstCopies(deliveries)["slow"]), 1, "deliveries of the key that waits")
	}
	close(release)
	s.waitAll(t, slow)
}

func requireOrder(t *testing.T, deliveries []txmsg.Delivery, from, to int64) {
	t.Helper()
	for key, sequences := range firstCopies(deliveries) {
		require.Equal(t, upTo(from, to), sequences, "first copies of %s", key)
	}
}

func upTo(from, to int64) []int64 {
	var numbers []int64
	for n := from; n <= to; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

func containsAll(have, want []int64) bool {
	for _, n := range want {
		if !slices.Contains(have, n) {
			return false
		}
	}
	return true
}

// hold keeps a deliver call until release is closed; a test that fails, which takes Patience, does not hold it for
// ever.
func (h Harness) hold(release <-chan struct{}) error {
	select {
	case <-release:
		return nil
	case <-time.After(2 * h.Patience):
		return errRefused
	}
}

package subscribertest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runStop(t *testing.T, h Harness) {
	t.Run("an idle subscriber returns nil", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 1, "a")
		publish(t, h, msgs...)
		s := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		s.waitAll(t, msgs)
		s.stop(t)
	})

	t.Run("a context that has ended returns nil", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		done := make(chan error, 1)
		go func() {
			done <- h.Subscriber(t, newGroup(), h.Topic(t)).Run(ctx, acknowledge)
		}()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(h.Patience):
			require.Fail(t, "Run did not return")
		}
	})

	t.Run("waits for the calls under way and stores what they acknowledge", func(t *testing.T) {
		t.Parallel()
		topic, group := h.Topic(t), newGroup()
		msgs := messages(topic, 3, keys(4)...)
		publish(t, h, msgs...)
		release := make(chan struct{})
		var finished, accepted atomic.Int32
		var ended atomic.Bool
		var entered atomic.Int32
		first := start(t, h, h.Subscriber(t, group, topic), func(ctx context.Context, _ txmsg.Delivery) error {
			entered.Add(1)
			defer finished.Add(1)
			if err := h.hold(release); err != nil {
				return err
			}
			if ctx.Err() != nil {
				ended.Store(true)
			}
			accepted.Add(1)
			return nil
		})
		if h.Abilities.HeadOfLine {
			// The head of one key may hold those of the others back, as its call does not return before release is closed.
			first.wait(t, "a message", func(deliveries []txmsg.Delivery) bool { return len(deliveries) > 0 })
		} else {
			// With one position in each partition, what is acknowledged behind a message that is never delivered comes again, and
			// the heads of the keys are not delivered in their order in the partition. So all of them must be under way.
			first.waitAll(t, msgs[:4])
		}
		first.cancel()
		select {
		case <-first.done:
			require.Fail(t, "Run returned before the deliver calls under way")
		case <-time.After(settling):
		}
		close(release)
		first.stop(t)
		require.Equal(t, entered.Load(), finished.Load(), "deliver calls that Run left behind")
		require.False(t, ended.Load(), "deliver's context ended with Run's")
		require.Positive(t, accepted.Load())

		done, _ := first.snapshot()
		second := start(t, h, h.Subscriber(t, group, topic), acknowledge)
		rest := without(msgs, done)
		sentinels := messages(topic, 1, keys(4)...)
		publish(t, h, sentinels...)
		deliveries := second.waitAll(t, append(rest, sentinels...))
		if !h.Abilities.Order {
			deliveries = watch(second)
		}
		require.ElementsMatch(t, idsOf(append(rest, sentinels...)), mapKeys(countByID(deliveries)))
	})
}

func without(msgs []txmsg.Message, done []txmsg.Delivery) []txmsg.Message {
	counts := countByID(done)
	var rest []txmsg.Message
	for _, m := range msgs {
		if counts[m.ID] == 0 {
			rest = append(rest, m)
		}
	}
	return rest
}

func runOutage(t *testing.T, h Harness) {
	if h.Away == nil {
		return
	}
	t.Run("a broker that is away is waited for", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 3, keys(2)...)
		publish(t, h, msgs...)
		subscriber, up := h.Away(t, newGroup(), topic)
		s := start(t, h, subscriber, acknowledge)
		select {
		case <-s.done:
			require.NoError(t, s.err)
			require.Fail(t, "Run returned while the broker was away")
		case <-time.After(settling):
		}
		up()
		s.waitAll(t, msgs)
	})

	t.Run("a stop does not wait for a broker that is away", func(t *testing.T) {
		t.Parallel()
		subscriber, _ := h.Away(t, newGroup(), h.Topic(t))
		s := start(t, h, subscriber, acknowledge)
		select {
		case <-s.done:
			require.NoError(t, s.err)
			require.Fail(t, "Run returned while the broker was away")
		case <-time.After(settling):
		}
		begin := time.Now()
		s.stop(t)
		require.Less(t, time.Since(begin), 15*time.Second)
	})
}

package subscribertest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runForeign(t *testing.T, h Harness) {
	t.Run("a foreign message has an ID that its copies share", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		publishRaw(t, h, topic, []byte("one"), map[string]string{"Content-Type": "text/plain"})
		publishRaw(t, h, topic, []byte("two"), nil)

		var refused atomic.Bool
		s := start(t, h, h.Subscriber(t, newGroup(), topic), func(_ context.Context, d txmsg.Delivery) error {
			if string(d.Message.Body) == "one" && !refused.Swap(true) {
				return errRefused
			}
			return nil
		})
		ids := map[string]string{}
		for _, d := range s.wait(t, "the refused message again", bodies("one", "one", "two")) {
			require.NoError(t, d.Malformed)
			id, body := d.Message.ID, string(d.Message.Body)
			require.NotEmpty(t, id)
			require.NoError(t, txmsg.Message{ID: id, Topic: "t"}.Validate())
			if seen, ok := ids[body]; ok {
				require.Equal(t, seen, id, "the ID of a copy")
			}
			ids[body] = id
			if body == "one" {
				require.Equal(t, "text/plain", d.Message.Headers["Content-Type"])
			}
		}
		require.NotEqual(t, ids["one"], ids["two"])

		other := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		for _, d := range other.wait(t, "both in another group", bodies("one", "two")) {
			require.Equal(t, ids[string(d.Message.Body)], d.Message.ID, "the ID in another group")
		}
	})

	t.Run("a malformed message is delivered as such", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		publishRaw(t, h, topic, []byte("bad"), map[string]string{
			txmsg.HeaderID: "the-id", txmsg.HeaderType: "the.type", txmsg.HeaderSequence: "seven",
		})
		publishRaw(t, h, topic, []byte("good"), map[string]string{txmsg.HeaderID: "another", txmsg.HeaderSequence: "7"})
		s := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		for _, d := range s.wait(t, "both messages", bodies("bad", "good")) {
			if string(d.Message.Body) == "good" {
				require.NoError(t, d.Malformed)
				require.Equal(t, int64(7), d.Message.Sequence)
				continue
			}
			invalid := new(txmsg.InvalidMessageError)
			require.True(t, errors.As(d.Malformed, &invalid), "got %v", d.Malformed)
			require.Equal(t, "the-id", d.Message.ID)
			require.Equal(t, "the.type", d.Message.Type)
			require.Equal(t, topic, d.Message.Topic)
			require.NotEmpty(t, d.Source.Broker)
		}
	})
}

// bodies asks for at least as many deliveries of each body as want has of it.
func bodies(want ...string) func([]txmsg.Delivery) bool {
	return func(deliveries []txmsg.Delivery) bool {
		missing := map[string]int{}
		for _, body := range want {
			missing[body]++
		}
		for _, d := range deliveries {
			missing[string(d.Message.Body)]--
		}
		for _, count := range missing {
			if count > 0 {
				return false
			}
		}
		return true
	}
}

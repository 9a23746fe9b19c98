package subscribertest

import (
	"bytes"
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func runDelivery(t *testing.T, h Harness) {
	t.Run("every message is delivered", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		before := messages(topic, 20, append(keys(5), "")...)
		publish(t, h, before...)
		s := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		s.waitAll(t, before)
		after := messages(topic, 20, append(keys(5), "")...)
		publish(t, h, after...)
		deliveries := s.waitAll(t, after)
		require.Len(t, countByID(deliveries), len(before)+len(after), "messages that nobody published")
	})

	t.Run("fields survive byte for byte", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := fields(topic)
		publish(t, h, msgs...)
		s := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		got := map[string]txmsg.Delivery{}
		for _, d := range s.waitAll(t, msgs) {
			got[d.Message.ID] = d
		}
		for _, want := range msgs {
			d := got[want.ID]
			require.NoError(t, d.Malformed)
			require.True(t, want.Equal(d.Message), "published %+v, delivered %+v", want, d.Message)
			require.NotNil(t, d.Message.Body)
		}
	})

	t.Run("the source names the place in the broker", func(t *testing.T) {
		t.Parallel()
		topic := h.Topic(t)
		msgs := messages(topic, 5, keys(2)...)
		publish(t, h, msgs...)
		s := start(t, h, h.Subscriber(t, newGroup(), topic), acknowledge)
		places := map[txmsg.Source]string{}
		for _, d := range s.waitAll(t, msgs) {
			require.NotEmpty(t, d.Source.Broker)
			require.Equal(t, topic, d.Source.Topic)
			if id, ok := places[d.Source]; ok {
				require.Equal(t, id, d.Message.ID, "two messages in one place: %+v", d.Source)
			}
			places[d.Source] = d.Message.ID
		}
	})

	t.Run("several topics", func(t *testing.T) {
		t.Parallel()
		one, two, other := h.Topic(t), h.Topic(t), h.Topic(t)
		msgs := append(messages(one, 5, "a"), messages(two, 5, "a")...)
		publish(t, h, messages(other, 1, "a")...)
		publish(t, h, msgs...)
		s := start(t, h, h.Subscriber(t, newGroup(), one, two), acknowledge)
		counts := map[string]int{}
		for _, d := range s.waitAll(t, msgs) {
			counts[d.Message.Topic]++
		}
		require.ElementsMatch(t, []string{one, two}, mapKeys(counts))
	})
}

// fields are messages with everything that a message may hold and a broker may spoil.
func fields(topic string) []txmsg.Message {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	msgs := []txmsg.Message{
		{Body: nil},
		{Body: []byte{}, Key: "empty"},
		{Body: []byte{0}},
		{Body: every, Key: "binary"},
		{Body: bytes.Repeat([]byte("0123456789"), 20_000)},
		{Body: []byte(`{"id":9007199254740993,"x":1.10,"s":"\u0000"}`), Type: "order.created"},
		{Sequence: 1},
		{Sequence: math.MaxInt64, Key: "a key, with spaces / and = signs", Type: "注文.作成"},
		{ID: "id of-another:kind/ü " + txmsg.NewID()},
		{Key: "Größe 注文", Headers: map[string]string{
			"X-Trace-ID": "upper", "x-trace-id": "lower", "Content-Type": "application/json; charset=utf-8",
			"unicode": "Größe 注文 🙂", "signs": `a=b; "c": d, e:f\n %41 +`, "a.b_c-d": "1",
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}},
	}
	for i := range msgs {
		msgs[i].Topic = topic
		if msgs[i].ID == "" {
			msgs[i].ID = txmsg.NewID()
		}
	}
	return msgs
}

func mapKeys(m map[string]int) []string {
	var keys []string
	for key := range maps.Keys(m) {
		keys = append(keys, key)
	}
	return keys
}

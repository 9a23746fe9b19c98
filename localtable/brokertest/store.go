package brokertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func testStore(t *testing.T, h Harness) {
	t.Run("acknowledged means stored", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		var msgs []txmsg.Message
		for i := range 500 {
			m := message(topic, fmt.Sprint("body ", i))
			if i%2 == 0 {
				m.Key = fmt.Sprint("key ", i)
			}
			msgs = append(msgs, m)
		}
		requireStored(t, publish(t, h, broker, msgs...))
		require.ElementsMatch(t, ids(msgs), ids(read(t, h.Server, topic)))
	})

	t.Run("no messages are no results", func(t *testing.T) {
		require.Empty(t, publish(t, h, open(t, h.Server)))
	})

	t.Run("every field survives", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		msgs := []txmsg.Message{
			{ID: "plain", Topic: topic, Body: []byte("x")},
			{ID: "with-key", Topic: topic, Key: "order 7", Type: "order.created", Sequence: 1<<63 - 1, Body: []byte("x")},
			{ID: "unicode ключ", Topic: topic, Key: "größe/日本", Type: "подія", Body: []byte("тіло"), Headers: map[string]string{"name": "Zoë 🎉 b: c; d=e, \"q\""}},
			{ID: "case", Topic: topic, Key: "case", Headers: map[string]string{"X-Tenant": "A", "x-tenant": "a", "camelCase": "b", "UPPER": "C", "dots.and_more-": "d", "0digit": "0"}},
			{ID: strings.Repeat("i", txmsg.MaxIDBytes), Topic: topic, Key: strings.Repeat("k", txmsg.MaxKeyBytes), Type: strings.Repeat("t", txmsg.MaxTypeBytes)},
			{ID: "long-header", Topic: topic, Key: "long", Headers: map[string]string{strings.Repeat("n", txmsg.MaxHeaderNameBytes): strings.Repeat("v", 8000)}},
		}
		for _, m := range msgs {
			require.NoError(t, m.Validate())
			require.NoError(t, broker.Check(m))
		}
		requireStored(t, publish(t, h, broker, msgs...))
		requireSame(t, h.Server, topic, msgs)
	})

	t.Run("every byte of a body survives", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		bodies := []string{string(all), "\x00", "\r\n", `{"id":9007199254740993,"x":1.10}`, "{\"a\":\"x\\u0000y\"}", strings.Repeat(string(all), 2000)}
		var msgs []txmsg.Message
		for _, body := range bodies {
			msgs = append(msgs, message(topic, body))
		}
		requireStored(t, publish(t, h, broker, msgs...))
		requireSame(t, h.Server, topic, msgs)
	})

	t.Run("C47 nil, empty and one-byte bodies", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		msgs := []txmsg.Message{message(topic, "empty"), message(topic, "nil"), message(topic, "1")}
		msgs[0].Body, msgs[1].Body = []byte{}, nil
		requireStored(t, publish(t, h, broker, msgs...))
		for _, record := range h.Read(t, topic) {
			require.False(t, record.Null, "an empty body must not be stored as null")
		}
		requireSame(t, h.Server, topic, msgs)
	})

	t.Run("C40 publishing an ID again is success", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		m := message(topic, "once")
		requireStored(t, publish(t, h, broker, m))
		requireStored(t, publish(t, h, broker, m, message(topic, "other")))
		copies := 0
		for _, got := range read(t, h.Server, topic) {
			if got.ID == m.ID {
				require.True(t, m.Equal(got))
				copies++
			}
		}
		if h.Deduplicates {
			require.Equal(t, 1, copies)
		} else {
			require.Equal(t, 2, copies)
		}
	})

	t.Run("one key keeps its order over calls", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		keys := []string{"a", "b", "c"}
		for i := range 100 {
			var batch []txmsg.Message
			for _, key := range keys {
				m := message(topic, "")
				m.Key, m.Sequence = key, int64(i+1)
				batch = append(batch, m)
			}
			requireStored(t, publish(t, h, broker, batch...))
		}
		last := map[string]int64{}
		for _, m := range read(t, h.Server, topic) {
			require.Equal(t, last[m.Key]+1, m.Sequence, "key %s", m.Key)
			last[m.Key] = m.Sequence
		}
		require.Equal(t, map[string]int64{"a": 100, "b": 100, "c": 100}, last)
	})

	t.Run("many goroutines publish at once", func(t *testing.T) { testConcurrent(t, h) })
}

func testConcurrent(t *testing.T, h Harness) {
	topic, broker := create(t, h.Server), open(t, h.Server)
	const goroutines, calls = 16, 20
	sent := make([][]txmsg.Message, goroutines)
	failed := make([]error, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range calls {
				batch := []txmsg.Message{message(topic, ""), message(topic, ""), message(topic, "")}
				batch[0].Key, batch[0].Sequence = fmt.Sprint("key ", g), int64(i+1)
				for _, err := range broker.Publish(context.Background(), batch) {
					if err != nil {
						failed[g] = err
					}
				}
				sent[g] = append(sent[g], batch...)
			}
		})
	}
	group.Wait()
	requireStored(t, failed)
	var want []string
	for _, msgs := range sent {
		want = append(want, ids(msgs)...)
	}
	got := read(t, h.Server, topic)
	require.ElementsMatch(t, want, ids(got))
	last := map[string]int64{}
	for _, m := range got {
		if m.Key != "" {
			require.Equal(t, last[m.Key]+1, m.Sequence, m.Key)
			last[m.Key]++
		}
	}
}

// requireSame compares what topic holds with msgs, both decoded and header by header.
func requireSame(t *testing.T, s Server, topic string, msgs []txmsg.Message) {
	t.Helper()
	records := s.Read(t, topic)
	require.Len(t, records, len(msgs))
	byID := map[string]Record{}
	for _, record := range records {
		byID[record.Headers[txmsg.HeaderID]] = record
	}
	for _, want := range msgs {
		record, ok := byID[want.ID]
		require.True(t, ok, "message %q is not there", want.ID)
		got, err := txmsg.FromWire(topic, record.Body, record.Headers, "")
		require.NoError(t, err)
		require.True(t, want.Equal(got), "want %+v\ngot %+v", want, got)
		for name, value := range txmsg.ToWire(want) {
			require.Equal(t, value, record.Headers[name], "header %s of %q", name, want.ID)
		}
	}
}

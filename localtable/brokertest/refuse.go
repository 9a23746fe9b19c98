package brokertest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func testRefuse(t *testing.T, h Harness) {
	t.Run("C45 Check names the field of an oversized message", func(t *testing.T) {
		broker := open(t, h.Server)
		m := message(newTopic(), strings.Repeat("x", h.Oversized))
		err := broker.Check(m)
		require.ErrorIs(t, err, txmsg.ErrTooLarge)
		var invalid *txmsg.InvalidMessageError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "Body", invalid.Field)
		require.Contains(t, err.Error(), "must be at most")
		m.Body = []byte("x")
		require.NoError(t, broker.Check(m))
	})

	t.Run("C45 what Check accepts is stored, however many headers", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		m := message(topic, "")
		m.Key = "key"
		m.Headers = map[string]string{}
		for i := range 600 {
			m.Headers["h"+strings.Repeat("i", i%40)+string(rune('a'+i/40))] = "v"
		}
		low, high := 0, h.Oversized // the largest body that Check accepts lies between
		for low+1 < high {
			middle := (low + high) / 2
			m.Body = make([]byte, middle)
			if broker.Check(m) == nil {
				low = middle
			} else {
				high = middle
			}
		}
		m.Body = make([]byte, low)
		requireStored(t, publish(t, h, broker, m))
	})

	t.Run("C45 a message over the configured limit fails alone", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		testTooLarge(t, h, topic, func(msgs []txmsg.Message) []error { return publish(t, h, broker, msgs...) }, h.Oversized)
	})

	t.Run("C45 a message over the server's limit fails alone", func(t *testing.T) {
		const limit = 8 << 10
		topic, broker := newTopic(), open(t, h.Server)
		h.Create(t, topic, limit)
		testTooLarge(t, h, topic, func(msgs []txmsg.Message) []error {
			for _, m := range msgs {
				require.NoError(t, broker.Check(m))
			}
			return publish(t, h, broker, msgs...)
		}, 4*limit)
	})

	t.Run("C48 a message that forges headers is refused alone", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		var msgs []txmsg.Message
		for _, value := range []string{"a\x00b", "a\x01b", "hello\x02TRAN_MSG\x01true", "a\r\nNats-Rollup: all"} {
			m := message(topic, "bad")
			m.Headers = map[string]string{"name": value}
			msgs = append(msgs, m)
		}
		for _, name := range []string{"TRAN_MSG", "PGROUP", "KEYS", "Nats-Msg-Id", "txmsg-id", "a b", "a\r\nb"} {
			m := message(topic, "bad")
			m.Headers = map[string]string{name: "x"}
			msgs = append(msgs, m)
		}
		good := message(topic, "good")
		results := publish(t, h, broker, append(msgs, good)...)
		for i, m := range msgs {
			require.ErrorIs(t, results[i], txmsg.ErrRefused)
			for name := range m.Headers {
				require.ErrorContains(t, results[i], strings.Trim(strings.ReplaceAll(name, "\r\n", `\r\n`), `"`))
			}
		}
		require.NoError(t, results[len(msgs)])
		requireSame(t, h.Server, topic, []txmsg.Message{good})
	})
}

// testTooLarge has one message of size bytes between others that must be stored. All have keys, so that where keys choose
// partitions some share the large one's; several rounds, because it is chance which of them also share its batch.
func testTooLarge(t *testing.T, h Harness, topic string, publish func([]txmsg.Message) []error, size int) {
	var stored []string
	for range 5 {
		var msgs []txmsg.Message
		for range 61 {
			m := message(topic, "small")
			m.Key = m.ID
			msgs = append(msgs, m)
		}
		msgs[30].Body = incompressible(size)
		results := publish(msgs)
		for i, m := range msgs {
			if i == 30 {
				require.ErrorIs(t, results[i], txmsg.ErrTooLarge)
				continue
			}
			require.NoError(t, results[i], "message %d", i)
			stored = append(stored, m.ID)
		}
	}
	require.ElementsMatch(t, stored, ids(read(t, h.Server, topic)))
}

func testRoute(t *testing.T, h Harness) {
	t.Run("C41 C61 a topic that does not exist is no route, until it does", func(t *testing.T) {
		there, missing, broker := create(t, h.Server), newTopic(), open(t, h.Server)
		lost, stored := message(missing, "lost"), message(there, "stored")
		lost.Key = "key"
		for range 2 { // the first try must not have created it
			results := publish(t, h, broker, lost, stored)
			require.ErrorIs(t, results[0], txmsg.ErrNoRoute)
			require.ErrorContains(t, results[0], missing)
			require.NoError(t, results[1])
		}
		list, err := broker.Missing(context.Background(), []string{there, missing})
		require.NoError(t, err)
		require.Equal(t, []string{missing}, list)

		h.Create(t, missing, 0)
		requireStored(t, publish(t, h, broker, lost))
		requireSame(t, h.Server, missing, []txmsg.Message{lost})
	})

	t.Run("C61 Missing lists topics and creates none", func(t *testing.T) {
		there, one, two, broker := create(t, h.Server), newTopic(), newTopic(), open(t, h.Server)
		for range 2 {
			list, err := broker.Missing(context.Background(), []string{one, there, two})
			require.NoError(t, err)
			require.ElementsMatch(t, []string{one, two}, list)
		}
		list, err := broker.Missing(context.Background(), []string{there})
		require.NoError(t, err)
		require.Empty(t, list)
		list, err = broker.Missing(context.Background(), nil)
		require.NoError(t, err)
		require.Empty(t, list)
	})
}

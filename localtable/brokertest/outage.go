package brokertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func testOutage(t *testing.T, h Harness, f Faulty) {
	t.Run("opened while the broker is away, it works once it is there", func(t *testing.T) {
		topic := create(t, f.Server)
		f.Cut()
		t.Cleanup(f.Restore)
		broker := open(t, f.Server)
		m := message(topic, "late")
		require.ErrorIs(t, publish(t, h, broker, m)[0], txmsg.ErrOutage)
		start := time.Now()
		_, err := broker.Missing(context.Background(), []string{topic})
		require.ErrorIs(t, err, txmsg.ErrOutage)
		require.Less(t, time.Since(start), h.Timeout+slack)
		f.Restore()
		publishUntilStored(t, h, broker, m)
		require.Contains(t, ids(read(t, f.Server, topic)), m.ID)
	})

	t.Run("connections cut", func(t *testing.T) {
		testFault(t, h, f, f.Cut)
	})

	t.Run("replies swallowed", func(t *testing.T) {
		testFault(t, h, f, f.Swallow)
	})

	t.Run("a message that met an outage is not sent behind the caller's back", func(t *testing.T) {
		topic, broker := create(t, f.Server), open(t, f.Server)
		requireStored(t, publish(t, h, broker, message(topic, "warm")))
		f.Cut()
		t.Cleanup(f.Restore)
		require.Eventually(t, func() bool { // until the client has seen the cut
			return broker.Publish(context.Background(), []txmsg.Message{message(topic, "probe")})[0] != nil
		}, h.Timeout+slack, 10*time.Millisecond)
		ghost := message(topic, "ghost")
		require.ErrorIs(t, publish(t, h, broker, ghost)[0], txmsg.ErrOutage)
		f.Restore()
		sentinel := message(topic, "sentinel")
		publishUntilStored(t, h, broker, sentinel)
		publishUntilStored(t, h, broker, message(topic, "and one more"))
		got := ids(read(t, f.Server, topic))
		require.Contains(t, got, sentinel.ID)
		require.NotContains(t, got, ghost.ID)
	})

	t.Run("cancelled while the broker hangs", func(t *testing.T) {
		topic, broker := create(t, f.Server), open(t, f.Server)
		requireStored(t, publish(t, h, broker, message(topic, "warm")))
		f.Swallow()
		t.Cleanup(f.Restore)
		ctx, cancel := context.WithCancel(context.Background())
		results := make(chan []error, 1)
		m := message(topic, "hangs")
		go func() { results <- broker.Publish(ctx, []txmsg.Message{m}) }()
		cancel()
		select {
		case got := <-results:
			requireClassed(t, got, 1)
			require.ErrorIs(t, got[0], txmsg.ErrOutage)
		case <-time.After(h.Timeout + slack):
			t.Fatal("Publish did not return")
		}
		f.Restore()
		publishUntilStored(t, h, broker, m)
	})

	t.Run("Close while the broker hangs", func(t *testing.T) {
		topic := create(t, f.Server)
		before := goleak.IgnoreCurrent()
		broker := f.Open(t)
		requireStored(t, publish(t, h, broker, message(topic, "warm")))
		f.Swallow()
		t.Cleanup(f.Restore)
		results := make(chan []error, 1)
		go func() { results <- broker.Publish(context.Background(), []txmsg.Message{message(topic, "hangs")}) }()
		closed := make(chan error, 1)
		go func() { closed <- broker.Close() }()
		select {
		case <-closed:
		case <-time.After(h.Timeout + 2*slack):
			t.Fatal("Close did not return")
		}
		select {
		case got := <-results:
			requireClassed(t, got, 1)
			require.ErrorIs(t, got[0], txmsg.ErrOutage)
		case <-time.After(h.Timeout + slack):
			t.Fatal("Publish did not return")
		}
		f.Cut() // so that what carries the faults is gone as well
		goleak.VerifyNone(t, before)
	})
}

// testFault harms the connection of a broker that works, and mends it.
func testFault(t *testing.T, h Harness, f Faulty, harm func()) {
	topic := create(t, f.Server)
	broker := open(t, f.Server)
	requireStored(t, publish(t, h, broker, message(topic, "before")))
	harm()
	t.Cleanup(f.Restore)
	msgs := []txmsg.Message{message(topic, "during"), message(topic, "during"), message(topic, "during")}
	for i := range msgs {
		msgs[i].Key = msgs[i].ID
	}
	for range 2 {
		for _, err := range publish(t, h, broker, msgs...) {
			require.ErrorIs(t, err, txmsg.ErrOutage)
		}
	}
	requireMissingOutage(t, h, broker, topic)
	f.Restore()
	for _, m := range msgs {
		publishUntilStored(t, h, broker, m)
	}
	requireStored(t, publish(t, h, broker, message(topic, "after")))
	got := read(t, f.Server, topic)
	copies := map[string]int{}
	for _, m := range got {
		copies[m.ID]++
	}
	for _, m := range msgs {
		require.Positive(t, copies[m.ID])
		if h.Deduplicates {
			require.Equal(t, 1, copies[m.ID], "the broker knows the ID")
		}
	}
}

func requireMissingOutage(t *testing.T, h Harness, broker localtable.Broker, topic string) {
	t.Helper()
	start := time.Now()
	_, err := broker.Missing(context.Background(), []string{topic})
	require.ErrorIs(t, err, txmsg.ErrOutage)
	require.Less(t, time.Since(start), h.Timeout+slack)
}

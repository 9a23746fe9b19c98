package brokertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/txmsg"
)

func testClose(t *testing.T, h Harness) {
	t.Run("used after Close it is an outage", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		requireStored(t, publish(t, h, broker, message(topic, "before")))
		require.NoError(t, broker.Close())
		for _, err := range publish(t, h, broker, message(topic, "after"), message(topic, "after")) {
			require.ErrorIs(t, err, txmsg.ErrOutage)
		}
		_, err := broker.Missing(context.Background(), []string{topic})
		require.ErrorIs(t, err, txmsg.ErrOutage)
		_ = broker.Close() // must not panic
		require.Len(t, read(t, h.Server, topic), 1)
	})

	t.Run("Close while others publish", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		requireStored(t, publish(t, h, broker, message(topic, "first")))
		const goroutines = 8
		acknowledged, results := make([][]string, goroutines), make([][]error, goroutines)
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				for {
					m := message(topic, "")
					err := broker.Publish(context.Background(), []txmsg.Message{m})[0]
					if err != nil {
						results[g] = []error{err}
						return
					}
					acknowledged[g] = append(acknowledged[g], m.ID)
				}
			})
		}
		start := time.Now()
		require.NoError(t, broker.Close())
		group.Wait()
		require.Less(t, time.Since(start), h.Timeout+slack)
		stored := map[string]bool{}
		for _, m := range read(t, h.Server, topic) {
			stored[m.ID] = true
		}
		for g := range goroutines {
			requireClassed(t, results[g], 1)
			require.ErrorIs(t, results[g][0], txmsg.ErrOutage)
			for _, id := range acknowledged[g] {
				require.True(t, stored[id], "acknowledged and not stored: %s", id)
			}
		}
	})

	t.Run("Close leaves no goroutine", func(t *testing.T) {
		topic := create(t, h.Server)
		before := goleak.IgnoreCurrent()
		broker := h.Open(t)
		requireStored(t, publish(t, h, broker, message(topic, "x")))
		_, err := broker.Missing(context.Background(), []string{newTopic()})
		require.NoError(t, err)
		require.NoError(t, broker.Close())
		goleak.VerifyNone(t, before)
	})

	t.Run("a cancelled context", func(t *testing.T) {
		topic, broker := create(t, h.Server), open(t, h.Server)
		requireStored(t, publish(t, h, broker, message(topic, "warm")))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		m := message(topic, "cancelled")
		results := broker.Publish(ctx, []txmsg.Message{m})
		requireClassed(t, results, 1)
		if results[0] == nil {
			require.Contains(t, ids(read(t, h.Server, topic)), m.ID)
		} else {
			require.ErrorIs(t, results[0], txmsg.ErrOutage)
		}
		requireStored(t, publish(t, h, broker, message(topic, "others are not harmed")))
	})
}

func incompressible(size int) []byte {
	random := make([]byte, size/2+1)
	_, _ = rand.Read(random) // never fails
	return []byte(hex.EncodeToString(random))[:size]
}

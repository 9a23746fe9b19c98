package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func testRestarts(t *testing.T, h Harness, f Faulty) {
	t.Run("C38 every acknowledged message is stored, with late replies and two restarts", func(t *testing.T) {
		topic, broker := create(t, f.Server), open(t, f.Server)
		requireStored(t, publish(t, h, broker, message(topic, "warm")))
		sender := send(t, broker, topic, 8, 625)
		for range 2 {
			sender.reach(t, 300)
			f.Delay(h.Timeout + time.Second) // every reply comes after the wait for it has ended
			sender.outage(t)
			f.Restore()
			sender.reach(t, 300)
			f.Restart()
		}
		sender.finish(t)
		got := map[string]bool{}
		for _, m := range read(t, f.Server, topic) {
			got[m.ID] = true
		}
		for _, id := range sender.acknowledged {
			require.True(t, got[id], "acknowledged and not stored: %s", id)
		}
	})

	t.Run("C39 one key keeps its order over five restarts", func(t *testing.T) {
		topic, broker := create(t, f.Server), open(t, f.Server)
		publishUntilStored(t, h, broker, message(topic, "warm"))
		sender := send(t, broker, topic, 1, 2000)
		for range 5 {
			sender.reach(t, 100)
			f.Restart()
		}
		sender.finish(t)
		last, seen := int64(0), map[string]bool{}
		for _, m := range read(t, f.Server, topic) {
			if m.Key != "" && !seen[m.ID] {
				seen[m.ID] = true
				require.Equal(t, last+1, m.Sequence, "first copies must be in order")
				last = m.Sequence
			}
		}
		require.EqualValues(t, 2000, last)
	})
}

// sender publishes numbered messages of some keys as the relay does: the next of a key after nil for the one before it.
type sender struct {
	mu           sync.Mutex
	acknowledged []string
	outages      int
	other        error
	done         chan struct{}
}

func send(t *testing.T, broker localtable.Broker, topic string, keys, each int) *sender {
	s := &sender{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for k := range keys {
		group.Go(func() { s.run(ctx, broker, topic, fmt.Sprint("key ", k), each) })
	}
	go func() {
		group.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
	})
	return s
}

func (s *sender) run(ctx context.Context, broker localtable.Broker, topic, key string, count int) {
	for i := 0; i < count && ctx.Err() == nil; {
		m := message(topic, key)
		m.ID, m.Key, m.Sequence = fmt.Sprintf("%s/%d", key, i+1), key, int64(i+1)
		result := broker.Publish(context.Background(), []txmsg.Message{m})[0]
		s.note(m, result)
		if result == nil {
			i++
			continue
		}
		pause()
	}
}

func (s *sender) note(m txmsg.Message, result error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case result == nil:
		s.acknowledged = append(s.acknowledged, m.ID)
	case errors.Is(result, txmsg.ErrOutage):
		s.outages++
	default:
		s.other = result
	}
}

// reach waits until count more messages are acknowledged, or all are.
func (s *sender) reach(t *testing.T, count int) {
	t.Helper()
	s.mu.Lock()
	goal := len(s.acknowledged) + count
	s.mu.Unlock()
	s.wait(t, func() bool { return len(s.acknowledged) >= goal })
}

// outage waits until a message met one.
func (s *sender) outage(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	goal := s.outages + 1
	s.mu.Unlock()
	s.wait(t, func() bool { return s.outages >= goal })
}

func (s *sender) wait(t *testing.T, holds func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-s.done:
			return true
		default:
			return holds()
		}
	}, 2*time.Minute, 5*time.Millisecond)
}

// finish waits for the end of the work and checks that nothing but outages stood in its way.
func (s *sender) finish(t *testing.T) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(5 * time.Minute):
		t.Fatal("not all messages were acknowledged")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.other)
	require.Positive(t, s.outages, "no message met an outage: the test proved nothing")
}

package churntest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// ledger is the delivery function of all members of a group, and what they acknowledged together.
type ledger struct {
	refuseEvery int

	mu         sync.Mutex
	calls      int
	first      map[string]bool    // by ID
	order      map[string][]int64 // sequences by key, in the order of their first acknowledgement
	duplicates int
	running    map[string]int // by key
	overlaps   []string
}

func newLedger() *ledger {
	return &ledger{first: map[string]bool{}, order: map[string][]int64{}, running: map[string]int{}}
}

func (l *ledger) deliver(_ context.Context, d txmsg.Delivery) error {
	m := d.Message
	l.enter(m.Key)
	if m.Key != "" {
		<-time.After(work(m.Sequence))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[m.Key]--
	l.calls++
	switch {
	case l.refuseEvery > 0 && l.calls%l.refuseEvery == 0:
		return errors.New("refused by the test")
	case l.first[m.ID]:
		l.duplicates++
	default:
		l.first[m.ID] = true
		l.order[m.Key] = append(l.order[m.Key], m.Sequence)
	}
	return nil
}

// work is how long a handler takes: mostly short, and now and then as long as a change of owners.
func work(sequence int64) time.Duration {
	switch {
	case sequence%40 == 0:
		return time.Second
	default:
		return time.Duration(sequence%5) * 2 * time.Millisecond
	}
}

func (l *ledger) enter(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[key]++
	if key != "" && l.running[key] > 1 {
		l.overlaps = append(l.overlaps, key)
	}
}

// publish sends each numbered messages of some keys, each until the server has it.
func (l *ledger) publish(t *testing.T, s Server, topic string, keys, each int) (done chan struct{}) {
	done = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for sequence := 1; sequence <= each; sequence++ {
			for key := range keys {
				m := txmsg.Message{ID: id(key, sequence), Topic: topic, Key: fmt.Sprint("key ", key), Sequence: int64(sequence)}
				if publishUntil(ctx, s, m) != nil {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return done
}

func (l *ledger) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return holds()
	}, patience, 5*time.Millisecond, what)
}

func (l *ledger) more(t *testing.T, count int) {
	t.Helper()
	l.mu.Lock()
	goal := len(l.first) + count
	l.mu.Unlock()
	l.await(t, "progress", func() bool { return len(l.first) >= goal })
}

func (l *ledger) awaitAll(t *testing.T, keys, each int) {
	t.Helper()
	l.await(t, "every message", func() bool {
		for key := range keys {
			if len(l.order[fmt.Sprint("key ", key)]) < each {
				return false
			}
		}
		return true
	})
}

// requireOrder holds the sentence that no later message of a key is acknowledged before an earlier one.
func (l *ledger) requireOrder(t *testing.T, keys, each int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range keys {
		sequences := l.order[fmt.Sprint("key ", key)]
		require.Len(t, sequences, each)
		for i, sequence := range sequences {
			require.EqualValues(t, i+1, sequence, "key %d: %v", key, sequences)
		}
	}
	t.Logf("%d deliveries, %d of them duplicates", l.calls, l.duplicates)
}

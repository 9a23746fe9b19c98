package localtable_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// faults are what the fake broker does wrong.
type faults struct {
	down     bool                     // nothing is answered; a call fails at once
	hang     map[string]time.Duration // topic → how long a call waits before these messages are unanswered
	missing  map[string]bool          // topics that do not exist
	refuse   map[string]int           // message ID → times it is refused, -1 for ever
	tooLarge map[string]bool          // message ID
	panics   int                      // calls that panic
	short    int                      // calls that return no results
	latency  time.Duration            // of every call
	deaf     time.Duration            // how long the question for topics waits before it is unanswered
	odd      map[string]error         // message ID → an error without a class
}

// broker is one in memory that keeps what it stored and what it was asked.
type broker struct {
	mu       sync.Mutex
	faults   faults
	stored   []txmsg.Message
	at       map[string]time.Time // message ID → first stored
	calls    []call
	broken   []string // rules of the contract that a caller broke
	closed   bool
	under    int // calls under way
	onCall   func()
	received chan struct{}
}

type call struct {
	at  time.Time
	ids []string
}

func newBroker() *broker {
	return &broker{at: map[string]time.Time{}, received: make(chan struct{}, 1)}
}

func (b *broker) set(f faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = f
}

func (b *broker) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	f := b.begin(msgs)
	defer b.end()
	wait := f.latency
	for _, m := range msgs {
		wait = max(wait, f.hang[m.Topic])
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return b.all(msgs, fmt.Errorf("cut off: %w", txmsg.ErrOutage))
		}
	}
	if f.down {
		return b.all(msgs, fmt.Errorf("connection refused: %w", txmsg.ErrOutage))
	}
	results := make([]error, len(msgs))
	for i, m := range msgs {
		results[i] = b.store(f, m)
	}
	return results
}

// begin notes the call and returns the faults that hold for it.
func (b *broker) begin(msgs []txmsg.Message) faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.under++
	keys, ids := map[string]bool{}, []string{}
	for _, m := range msgs {
		ids = append(ids, m.ID)
		if m.Key != "" && keys[m.Key] {
			b.broken = append(b.broken, "two messages of key "+m.Key+" in one call")
		}
		keys[m.Key] = true
	}
	if len(msgs) == 0 {
		b.broken = append(b.broken, "empty call")
	}
	if b.closed {
		b.broken = append(b.broken, "call after Close")
	}
	b.calls = append(b.calls, call{time.Now(), ids})
	if b.onCall != nil {
		b.onCall()
	}
	if b.faults.panics > 0 {
		b.faults.panics--
		panic("broker's client panics")
	}
	if b.faults.short > 0 {
		b.faults.short--
		return faults{down: true}
	}
	return b.faults
}

func (b *broker) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.under--
}

func (b *broker) all(msgs []txmsg.Message, err error) []error {
	return slices.Repeat([]error{err}, len(msgs))
}

func (b *broker) store(f faults, m txmsg.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case f.hang[m.Topic] > 0:
		return fmt.Errorf("no answer: %w", txmsg.ErrOutage)
	case f.missing[m.Topic]:
		return fmt.Errorf("topic %s: %w", m.Topic, txmsg.ErrNoRoute)
	case f.tooLarge[m.ID]:
		return fmt.Errorf("%s: %w", m.ID, txmsg.ErrTooLarge)
	case f.odd[m.ID] != nil:
		return f.odd[m.ID]
	case f.refuse[m.ID] != 0:
		if f.refuse[m.ID] > 0 {
			b.faults.refuse[m.ID]--
		}
		return fmt.Errorf("%s: %w", m.ID, txmsg.ErrRefused)
	}
	b.stored = append(b.stored, m)
	if _, ok := b.at[m.ID]; !ok {
		b.at[m.ID] = time.Now()
	}
	signal(b.received)
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (b *broker) Check(m txmsg.Message) error { return txmsg.CheckSize(m, 1<<20) }

func (b *broker) Missing(ctx context.Context, topics []string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if deaf := b.faults.deaf; deaf > 0 {
		b.mu.Unlock()
		select {
		case <-time.After(deaf):
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
	if b.faults.down || b.faults.deaf > 0 {
		return nil, fmt.Errorf("connection refused: %w", txmsg.ErrOutage)
	}
	return slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return !b.faults.missing[topic] }), nil
}

func (b *broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.under > 0 {
		b.broken = append(b.broken, "Close during a call")
	}
	b.closed = true
	return nil
}

// ids returns the IDs of what was stored, copies included, of one key or of all.
func (b *broker) ids(keys ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []string{}
	for _, m := range b.stored {
		if len(keys) == 0 || slices.Contains(keys, m.Key) {
			list = append(list, m.ID)
		}
	}
	return list
}

// firsts returns, by key, the IDs in the order of their first copies.
func (b *broker) firsts() map[string][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen, byKey := map[string]bool{}, map[string][]string{}
	for _, m := range b.stored {
		if !seen[m.ID] {
			byKey[m.Key] = append(byKey[m.Key], m.ID)
		}
		seen[m.ID] = true
	}
	return byKey
}

func (b *broker) distinct() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.at)
}

func (b *broker) tried(id string) (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range b.calls {
		if slices.Contains(call.ids, id) {
			count++
		}
	}
	return count
}

func (b *broker) seenCalls() []call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func (b *broker) storedAt(id string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at[id]
}

func (b *broker) violations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.broken)
}

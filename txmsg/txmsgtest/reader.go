package txmsgtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// reader keeps everything that arrives on one topic.
type reader struct {
	topic string

	mu       sync.Mutex
	received []received
	changed  chan struct{} // closed and replaced at every arrival
	watch    func(received)
}

// received is one arrival.
type received struct {
	txmsg.Delivery
	at time.Time
}

// newReader reads topic until the test ends. watch sees every arrival at once, in the reader's goroutine; it may be nil.
func newReader[Tx any](t *testing.T, b Bundle[Tx], topic string, watch func(received)) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{topic: topic, changed: make(chan struct{}), watch: watch}
	deliveries := b.Receive(ctx, t, topic)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for delivery := range deliveries {
			r.add(received{Delivery: delivery, at: time.Now()})
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *reader) add(d received) {
	if r.watch != nil {
		r.watch(d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, d)
	close(r.changed)
	r.changed = make(chan struct{})
}

// all returns what has arrived, in the order of arrival.
func (r *reader) all() ([]received, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received[:len(r.received):len(r.received)], r.changed
}

// ids counts the copies of every message that has arrived.
func (r *reader) ids() map[string]int {
	copies := map[string]int{}
	all, _ := r.all()
	for _, d := range all {
		copies[d.Message.ID]++
	}
	return copies
}

// await waits until enough copies of every one of ids have arrived.
func (r *reader) await(t *testing.T, wait time.Duration, copies int, ids ...string) {
	t.Helper()
	missing := r.awaitErr(wait, copies, ids...)
	require.NoError(t, missing)
}

func (r *reader) awaitErr(wait time.Duration, copies int, ids ...string) error {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	counted := map[string]int{}
	open := map[string]bool{}
	for _, id := range ids {
		open[id] = true
	}
	for next := 0; len(open) > 0; {
		all, changed := r.all()
		for _, d := range all[next:] {
			id := d.Message.ID
			if counted[id]++; counted[id] >= copies {
				delete(open, id)
			}
		}
		next = len(all)
		if len(open) == 0 {
			break
		}
		select {
		case <-changed:
		case <-timeout.C:
			return fmt.Errorf("not delivered on topic %s within %s: %d of %d messages, among them %s", r.topic, wait, len(open), len(ids), first(open))
		}
	}
	return nil
}

func first(set map[string]bool) string {
	for id := range set {
		return id
	}
	return ""
}

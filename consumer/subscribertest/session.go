package subscribertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

var errRefused = errors.New("the test refuses the message")

// session is one Run of a subscriber and what it delivered.
type session struct {
	patience time.Duration
	handle   func(ctx context.Context, d txmsg.Delivery) error
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // of Run; valid after done

	mu         sync.Mutex
	deliveries []txmsg.Delivery // in the order in which they began
	running    map[string]int   // deliver calls under way by key
	overlaps   []string         // keys that had two at once
	late       int              // deliver calls after Run returned
	changed    chan struct{}    // closed and renewed at every delivery
}

// start runs subscriber; handle answers its deliveries, nil acknowledges all. The test's end stops it.
func start(t *testing.T, h Harness, subscriber consumer.Subscriber, handle func(ctx context.Context, d txmsg.Delivery) error) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &session{
		patience: h.Patience, handle: handle, cancel: cancel,
		done: make(chan struct{}), running: map[string]int{}, changed: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.err = subscriber.Run(ctx, s.deliver)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-s.done:
		case <-time.After(s.patience):
			t.Error("Run did not return after its context ended")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.late > 0 {
			t.Errorf("%d deliver calls after Run had returned", s.late)
		}
	})
	return s
}

func (s *session) deliver(ctx context.Context, d txmsg.Delivery) error {
	s.begin(d)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[d.Message.Key]--
	}()
	if s.handle == nil {
		return nil
	}
	return s.handle(ctx, d)
}

func (s *session) begin(d txmsg.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		s.late++
	default:
	}
	s.deliveries = append(s.deliveries, d)
	key := d.Message.Key
	s.running[key]++
	if s.running[key] > 1 && key != "" {
		s.overlaps = append(s.overlaps, key)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// stop ends the session as a clean shutdown does.
func (s *session) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	select {
	case <-s.done:
		require.NoError(t, s.err, "Run after its context ended")
	case <-time.After(s.patience):
		require.Fail(t, "Run did not return after its context ended")
	}
}

// wait returns the deliveries so far as soon as enough says so.
func (s *session) wait(t *testing.T, what string, enough func([]txmsg.Delivery) bool) []txmsg.Delivery {
	t.Helper()
	deadline := time.After(s.patience)
	for {
		deliveries, changed := s.snapshot()
		if enough(deliveries) {
			return deliveries
		}
		select {
		case <-changed:
		case <-s.done:
			require.NoError(t, s.err, "Run ended while the test waited for %s", what)
			require.Fail(t, "Run returned before its context ended")
		case <-deadline:
			require.Failf(t, "not delivered", "waited for %s, got %d deliveries: %v", what, len(deliveries), sequences(deliveries))
		}
	}
}

func (s *session) snapshot() ([]txmsg.Delivery, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]txmsg.Delivery(nil), s.deliveries...), s.changed
}

// waitAll waits until each of msgs has been delivered at least once.
func (s *session) waitAll(t *testing.T, msgs []txmsg.Message) []txmsg.Delivery {
	t.Helper()
	return s.wait(t, "every message", func(deliveries []txmsg.Delivery) bool {
		counts := countByID(deliveries)
		for _, m := range msgs {
			if counts[m.ID] == 0 {
				return false
			}
		}
		return true
	})
}

func (s *session) requireNoOverlap(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.overlaps, "keys with two deliver calls at once")
}

func countByID(deliveries []txmsg.Delivery) map[string]int {
	counts := map[string]int{}
	for _, d := range deliveries {
		counts[d.Message.ID]++
	}
	return counts
}

// firstCopies returns, by key, the sequences of the first copy of each message in the order of delivery.
func firstCopies(deliveries []txmsg.Delivery) map[string][]int64 {
	seen, copies := map[string]bool{}, map[string][]int64{}
	for _, d := range deliveries {
		if m := d.Message; !seen[m.ID] {
			seen[m.ID] = true
			copies[m.Key] = append(copies[m.Key], m.Sequence)
		}
	}
	return copies
}

func sequences(deliveries []txmsg.Delivery) []int64 {
	sequences := make([]int64, len(deliveries))
	for i, d := range deliveries {
		sequences[i] = d.Message.Sequence
	}
	return sequences
}

func acknowledge(context.Context, txmsg.Delivery) error { return nil }

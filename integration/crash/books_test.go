package crash

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// books are the broker's own: every half that it has stored, and which of them it is done with. It keeps both in topics of one
// queue that anybody can read. A half whose transaction is asked about is appended again, and from then on the later
// copy stands for it. The broker notes a half as done by its place, after it has made the message visible or dropped it.
type books struct {
	mu     sync.Mutex
	places map[string]int64  // of each half's last copy
	halves map[string]string // by the ID of their message
	done   map[int64]bool
}

const (
	halfTopic = "RMQ_SYS_TRANS_HALF_TOPIC"
	doneTopic = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
)

var (
	openOnce sync.Once
	opened   = &books{places: map[string]int64{}, halves: map[string]string{}, done: map[int64]bool{}}
)

// openBooks follows the books of the broker for as long as the test binary runs: there is one broker, and much in them.
func openBooks(t *testing.T, nameServer string) *books {
	t.Helper()
	openOnce.Do(func() {
		halves := rocketmqtest.Read(context.Background(), t, nameServer, halfTopic, 1)
		done := rocketmqtest.Read(context.Background(), t, nameServer, doneTopic, 1)
		go func() {
			for m := range halves {
				opened.store(m)
			}
		}()
		go func() {
			for m := range done {
				opened.finish(string(m.Body))
			}
		}()
	})
	return opened
}

func (b *books) store(m *primitive.MessageExt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex)
	b.places[id] = m.QueueOffset
	b.halves[m.GetProperty(txmsg.HeaderID)] = id
}

// finish takes a list of places, each followed by a comma.
func (b *books) finish(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for place := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		if offset, err := strconv.ParseInt(place, 10, 64); err == nil {
			b.done[offset] = true
		}
	}
}

// look returns whether the broker has a half, and whether it is done with it.
func (b *books) look(halfID string) (stored, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, stored := b.places[halfID]
	return stored, b.done[place]
}

// awaitDone waits until the broker is done with every one of halfIDs that it has, and returns those that it has not.
func (b *books) awaitDone(t *testing.T, halfIDs []string) (absent []string) {
	t.Helper()
	for _, id := range halfIDs {
		stored, _ := b.look(id)
		if !stored {
			absent = append(absent, id)
			continue
		}
		await(t, "the broker to be done with half "+id, func() bool {
			_, done := b.look(id)
			return done
		})
	}
	return absent
}

// halfOf returns the last half that was stored for a message.
func (b *books) halfOf(messageID string) (halfID string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	halfID, ok = b.halves[messageID]
	return halfID, ok
}

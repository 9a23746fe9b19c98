package rocketmq

import (
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// order puts the messages of a key one behind the other. The library gives each message a goroutine of its own, and starts
// these in the order of the queue; but they may arrive here in another one. So a message first waits for those with lower
// offsets in its queue, which are there or about to be, and then for those before it in its key.
type order struct {
	mu     sync.Mutex
	queues map[primitive.MessageQueue]*queueOrder
	keys   map[topicKey]chan struct{} // closed when the last message of the key that came so far has left
}

type topicKey struct{ topic, key string }

type queueOrder struct {
	known   bool  // next is known
	next    int64 // offset of the next message
	waiting map[int64]int
	changed chan struct{} // closed and replaced when next has changed
}

func newOrder() *order {
	return &order{queues: map[primitive.MessageQueue]*queueOrder{}, keys: map[topicKey]chan struct{}{}}
}

// gap is how long a message waits for lower offsets. They may not exist: a queue's first message, or a cleaned-up queue.
const gap = 50 * time.Millisecond

// enter returns when it is the message's turn, and leave ends that.
func (o *order) enter(queue primitive.MessageQueue, offset int64, topic, key string) (leave func()) {
	o.awaitQueue(queue, offset)
	defer o.mu.Unlock() // which awaitQueue has locked
	if key == "" {
		return func() {}
	}
	name, mine := topicKey{topic, key}, make(chan struct{})
	before := o.keys[name]
	o.keys[name] = mine
	if before != nil {
		o.mu.Unlock()
		<-before
		o.mu.Lock()
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		close(mine)
		if o.keys[name] == mine {
			delete(o.keys, name)
		}
	}
}

// awaitQueue returns with o locked.
func (o *order) awaitQueue(queue primitive.MessageQueue, offset int64) {
	o.mu.Lock()
	q := o.queues[queue]
	if q == nil {
		q = &queueOrder{waiting: map[int64]int{}, changed: make(chan struct{})}
		o.queues[queue] = q
	}
	q.waiting[offset]++
	timer := time.NewTimer(gap)
	defer timer.Stop()
	for late := false; !q.mayPass(offset, late); {
		changed := q.changed
		o.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			late = true
		}
		o.mu.Lock()
	}
	if q.waiting[offset]--; q.waiting[offset] == 0 {
		delete(q.waiting, offset)
	}
	q.known, q.next = true, max(q.next, offset+1)
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queueOrder) mayPass(offset int64, late bool) bool {
	if q.known && offset <= q.next {
		return true
	}
	if !late {
		return false
	}
	for other := range q.waiting {
		if other < offset {
			return false
		}
	}
	return true
}

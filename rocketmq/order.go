package rocketmq

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// order puts the messages of a key one behind the other. The library gives each message a goroutine of its own; it
// starts these in the order of the queue, but they arrive here in any. So the order is taken down when a batch has been
// fetched, and each message first waits for those before it in its queue to arrive, and then for those before it in
// its key to leave.
type order struct {
	mu       sync.Mutex
	queues   map[primitive.MessageQueue]*queueOrder
	keys     map[topicKey]chan struct{} // closed when the last message of the key that has arrived leaves
	underWay int                        // fetched and not arrived, over all queues
	stopped  bool
	drained  chan struct{} // closed when it is stopped and nothing is under way
}

type topicKey struct{ topic, key string }

// queueOrder is what has been fetched from a queue and has not arrived.
type queueOrder struct {
	fetched []*primitive.MessageExt
	waiting map[*primitive.MessageExt]chan struct{} // closed when it is the first of fetched
}

func newOrder() *order {
	return &order{
		queues: map[primitive.MessageQueue]*queueOrder{}, keys: map[topicKey]chan struct{}{}, drained: make(chan struct{}),
	}
}

// lost is how long a message waits for those fetched before it: their goroutines were started before its own. When a
// queue goes over to another consumer, the library drops what it has fetched, and it never arrives.
const lost = 2 * time.Second

// fetch takes down the order of a batch. The library calls it in the goroutine that fetches from the queue, before it
// starts those of the messages. Once o is stopped that goroutine ends here: it would put the batch into a channel that the
// library closes at the same time, which would end the process.
func (o *order) fetch(batch *hooks.FilterMessageContext) ([]*primitive.MessageExt, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped {
		runtime.Goexit()
	}
	q := o.queues[*batch.MQ]
	if q == nil {
		q = &queueOrder{waiting: map[*primitive.MessageExt]chan struct{}{}}
		o.queues[*batch.MQ] = q
	}
	q.fetched = append(q.fetched, batch.Msg...)
	o.underWay += len(batch.Msg)
	return batch.Msg, nil
}

// stop lets no more be fetched. drained is closed when all that was has arrived.
func (o *order) stop() (drained <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	o.passed(0)
	return o.drained
}

// passed notes that so many messages are no longer under way.
func (o *order) passed(count int) {
	o.underWay -= count
	if o.stopped && o.underWay == 0 {
		select {
		case <-o.drained:
		default:
			close(o.drained)
		}
	}
}

// enter returns when it is the message's turn; leave ends that.
func (o *order) enter(m *primitive.MessageExt, key string) (leave func()) {
	o.mu.Lock()
	o.arrive(m)
	if key == "" {
		o.mu.Unlock()
		return func() {}
	}
	name, mine := topicKey{m.Topic, key}, make(chan struct{})
	before := o.keys[name]
	o.keys[name] = mine
	o.mu.Unlock()
	if before != nil {
		<-before
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

// arrive waits until m is the first of its queue that has not arrived, and takes it out. It unlocks o while it waits.
func (o *order) arrive(m *primitive.MessageExt) {
	q := o.queues[queueOf(m)]
	if q == nil || !slices.Contains(q.fetched, m) {
		return
	}
	if q.fetched[0] != m {
		turn := make(chan struct{})
		q.waiting[m] = turn
		o.mu.Unlock()
		timer := time.NewTimer(lost)
		select {
		case <-turn:
		case <-timer.C:
		}
		timer.Stop()
		o.mu.Lock()
		delete(q.waiting, m)
	}
	// What still stands before m was dropped by the library, or waits as long as m and then finds itself passed.
	if i := slices.Index(q.fetched, m); i >= 0 {
		q.fetched = slices.Delete(q.fetched, 0, i+1)
		o.passed(i + 1)
	}
	if len(q.fetched) > 0 {
		if turn := q.waiting[q.fetched[0]]; turn != nil {
			close(turn)
			delete(q.waiting, q.fetched[0])
		}
	}
}

func queueOf(m *primitive.MessageExt) primitive.MessageQueue {
	if m.Queue == nil {
		return primitive.MessageQueue{}
	}
	return *m.Queue
}

package dispatch

import (
	"context"
	"sync"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Queue is one ordered source: a partition, a stream's subject. Add is called by one goroutine; the other methods by any.
type Queue struct {
	pool    *Pool
	changed func()
	stopped chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	window  []*entry // from the first open one on, in order
	open    int      // of window, not acknowledged
	bytes   int      // of their bodies
	lines   map[line][]*entry
	closing bool
}

// entry is one message on its way.
type entry struct {
	delivery     txmsg.Delivery
	settle       func()
	acknowledged bool
}

// line is what is delivered one after the other: the messages of a key, or a single one without.
type line struct {
	key    string
	single *entry
}

// NewQueue returns a queue on pool. changed is called after each acknowledgement, outside any lock.
func NewQueue(pool *Pool, changed func()) *Queue {
	return &Queue{pool: pool, changed: changed, stopped: make(chan struct{}), lines: map[line][]*entry{}}
}

// Add takes the next message and never blocks. key is what orders it, "" for nothing. settle is called once this message and
// all that were added before it are acknowledged, unless a later one's is called in its place; such calls come one at a
// time, in order, and must not call the queue. The delivery function's context has ctx's values and does not end with it.
func (q *Queue) Add(ctx context.Context, key string, delivery txmsg.Delivery, settle func()) {
	e := &entry{delivery: delivery, settle: settle}
	l := line{key: key}
	if key == "" {
		l.single = e
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return
	}
	q.window = append(q.window, e)
	q.open++
	q.bytes += len(delivery.Message.Body)
	waiting, busy := q.lines[l]
	q.lines[l] = append(waiting, e)
	if !busy {
		q.running.Go(func() { q.run(context.WithoutCancel(ctx), l) })
	}
}

const (
	// maxBytes bounds the bodies that wait, so that large messages do not fill the memory.
	maxBytes = 32 << 20
	// windowFactor bounds what is acknowledged behind an open message, and would come again after a crash.
	windowFactor = 16
)

// Full reports whether the source should wait: limit messages are not acknowledged, or their bodies are large together, or
// many times limit stand behind one that is not acknowledged.
func (q *Queue) Full(limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open >= limit || q.bytes >= maxBytes || len(q.window) >= limit*windowFactor
}

// Stop starts no more calls, waits for those that run and drops the rest. When it returns, settle has been called for all
// that it ever will be.
func (q *Queue) Stop() {
	q.Close()
	q.running.Wait()
}

// Close is the first half of Stop: it does not wait.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closing {
		q.closing = true
		close(q.stopped)
	}
}

// run delivers the messages of one line until none is left.
func (q *Queue) run(ctx context.Context, l line) {
	for {
		q.mu.Lock()
		waiting := q.lines[l]
		if len(waiting) == 0 {
			delete(q.lines, l)
			q.mu.Unlock()
			return
		}
		head := waiting[0]
		q.mu.Unlock()
		if !q.finish(ctx, head) {
			return
		}
		q.acknowledge(l, head)
		q.changed()
	}
}

// finish delivers e until it is acknowledged, and reports whether it was.
func (q *Queue) finish(ctx context.Context, e *entry) bool {
	for attempt := 1; ; attempt++ {
		if !q.pool.enter(q.stopped) {
			return false
		}
		err := q.call(ctx, e.delivery)
		if err == nil {
			return true
		}
		q.pool.logger.Warn("message not acknowledged, delivering it again",
			"message_id", e.delivery.Message.ID, "topic", e.delivery.Source.Topic, "attempt", attempt, "error", err)
		if !q.pool.wait(q.stopped, attempt) {
			return false
		}
	}
}

func (q *Queue) call(ctx context.Context, delivery txmsg.Delivery) error {
	defer q.pool.leave()
	return q.pool.deliver(ctx, delivery)
}

func (q *Queue) acknowledge(l line, e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[l][0] = nil
	q.lines[l] = q.lines[l][1:]
	q.open--
	q.bytes -= len(e.delivery.Message.Body)
	e.acknowledged, e.delivery = true, txmsg.Delivery{}
	var last *entry
	for len(q.window) > 0 && q.window[0].acknowledged {
		last = q.window[0]
		q.window[0] = nil
		q.window = q.window[1:]
	}
	if last != nil {
		last.settle()
	}
}

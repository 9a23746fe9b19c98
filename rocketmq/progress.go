package rocketmq

import (
	"sync"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// progress is how far this consumer has come in each of its queues. The library knows it as well, but tells the broker in
// requests whose answers it does not wait for, the last ones right before it closes the connection: these may take effect
// after another consumer has asked where to begin, or never. And when it gives one queue up, it forgets the others' offsets
// until their next messages.
type progress struct {
	mu     sync.Mutex
	queues map[primitive.MessageQueue]*queueProgress // those that are this consumer's
	leaves bool                                      // no queue is any more
}

// queueProgress is what has been fetched from a queue.
type queueProgress struct {
	open map[int64]bool // offsets of what is not acknowledged
	next int64          // the offset after the last that was fetched; 0 before the first
}

func newProgress() *progress {
	return &progress{queues: map[primitive.MessageQueue]*queueProgress{}}
}

// allocate shares a topic's queues out as the library does by default, and takes down which are this consumer's: the library
// calls it for that each time when the members of the group may have changed. A queue that comes back begins anew.
func (p *progress) allocate(group, clientID string, all []*primitive.MessageQueue, members []string) []*primitive.MessageQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	var mine []*primitive.MessageQueue
	if !p.leaves {
		mine = consumer.AllocateByAveragely(group, clientID, all, members)
	}
	owned := map[primitive.MessageQueue]bool{}
	for _, queue := range mine {
		owned[*queue] = true
	}
	for _, queue := range all {
		switch {
		case !owned[*queue]:
			delete(p.queues, *queue)
		case p.queues[*queue] == nil:
			p.queues[*queue] = &queueProgress{open: map[int64]bool{}}
		}
	}
	return mine
}

// giveUp makes allocate leave all queues to others.
func (p *progress) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaves = true
}

// fetch takes down what has been fetched. The library calls it before it starts to deliver the batch.
func (p *progress) fetch(batch *hooks.FilterMessageContext) ([]*primitive.MessageExt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[*batch.MQ]; q != nil {
		for _, m := range batch.Msg {
			q.open[m.QueueOffset] = true
			q.next = m.QueueOffset + 1 // which may be lower than it was: someone may have reset the queue
		}
	}
	return batch.Msg, nil
}

func (p *progress) acknowledge(m *primitive.MessageExt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[queueOf(m)]; q != nil {
		delete(q.open, m.QueueOffset)
	}
}

// offsets returns, for each queue from which something was fetched, the offset of the first message that is not acknowledged.
func (p *progress) offsets() map[primitive.MessageQueue]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	offsets := map[primitive.MessageQueue]int64{}
	for queue, q := range p.queues {
		if q.next == 0 {
			continue
		}
		offsets[queue] = q.next
		for offset := range q.open {
			offsets[queue] = min(offsets[queue], offset)
		}
	}
	return offsets
}

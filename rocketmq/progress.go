package rocketmq

import (
	"slices"
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
	queues map[primitive.MessageQueue][]*ownership // those that are this consumer's
	leaves bool                                    // no queue is any more
}

// ownership is what has been fetched from a queue until the library lost it: to another member, because its offset was reset,
// or because a fetch hung. The library makes a new MessageQueue for each ownership, and its batches and messages have
// that one's address.
//
// A fetch that waits in the broker outlives its ownership: its batch may come after the first one of the next ownership. But
// the library does not deliver it then. So a queue's ownerships stand in the order of their first batches, and when one
// begins to deliver, those before it have ended; one behind it is new and has yet to deliver, or has ended and never will.
// Only that delivery tells of a reset: a stop before it stores an offset of before the reset.
type ownership struct {
	queue    *primitive.MessageQueue
	delivers bool           // something of it has begun to be delivered
	open     map[int64]bool // offsets of what is not acknowledged
	next     int64          // the offset after the last that was fetched
}

func newProgress() *progress {
	return &progress{queues: map[primitive.MessageQueue][]*ownership{}}
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
		if !owned[*queue] {
			delete(p.queues, *queue)
		} else if _, known := p.queues[*queue]; !known {
			p.queues[*queue] = nil
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

// fetch takes down what has been fetched. The library calls it before it starts to deliver the batch, and before it looks
// whether the queue is still its own.
func (p *progress) fetch(batch *hooks.FilterMessageContext) ([]*primitive.MessageExt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ownerships, mine := p.queues[*batch.MQ]
	if !mine || len(batch.Msg) == 0 {
		return batch.Msg, nil
	}
	i := slices.IndexFunc(ownerships, func(o *ownership) bool { return o.queue == batch.MQ })
	if i < 0 {
		i = len(ownerships)
		ownerships = append(ownerships, &ownership{queue: batch.MQ, open: map[int64]bool{}})
		p.queues[*batch.MQ] = ownerships
	}
	for _, m := range batch.Msg {
		ownerships[i].open[m.QueueOffset] = true
		ownerships[i].next = m.QueueOffset + 1
	}
	return batch.Msg, nil
}

// deliver takes down that the delivery of m begins, and ends the ownerships before m's.
func (p *progress) deliver(m *primitive.MessageExt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := queueOf(m)
	if i := p.find(m); i >= 0 {
		p.queues[queue] = slices.Delete(p.queues[queue], 0, i)
		p.queues[queue][0].delivers = true
	}
}

func (p *progress) acknowledge(m *primitive.MessageExt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.find(m); i >= 0 {
		delete(p.queues[queueOf(m)][i].open, m.QueueOffset)
	}
}

// find returns the index of m's ownership, and -1 if m is not open in it: a late batch may bring an ownership that has ended
// back, but not what else was fetched in it.
func (p *progress) find(m *primitive.MessageExt) int {
	return slices.IndexFunc(p.queues[queueOf(m)], func(o *ownership) bool { return o.queue == m.Queue && o.open[m.QueueOffset] })
}

// offsets returns, for each queue of which something was delivered, the offset of the first message that is not acknowledged.
func (p *progress) offsets() map[primitive.MessageQueue]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	offsets := map[primitive.MessageQueue]int64{}
	for queue, ownerships := range p.queues {
		if len(ownerships) == 0 || !ownerships[0].delivers {
			continue
		}
		offsets[queue] = ownerships[0].next
		for offset := range ownerships[0].open {
			offsets[queue] = min(offsets[queue], offset)
		}
	}
	return offsets
}

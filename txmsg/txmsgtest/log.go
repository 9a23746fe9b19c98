package txmsgtest

import (
	"context"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// log holds every message that was committed, and stands for the broker.
type log struct {
	mu      sync.Mutex
	entries []entry
	changed chan struct{} // closed and replaced at every append
}

type entry struct {
	message txmsg.Message
	due     time.Time // zero: at once
}

func newLog() *log { return &log{changed: make(chan struct{})} }

func (l *log) append(m txmsg.Message) {
	e := entry{message: m}
	if m.Delay > 0 {
		e.due = time.Now().Add(m.Delay)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	close(l.changed)
	l.changed = make(chan struct{})
}

// from returns the entries from offset on, and a channel that is closed when there are more.
func (l *log) from(offset int) ([]entry, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[offset:len(l.entries):len(l.entries)], l.changed
}

// follow sends the messages of topic to out, each when it is due, until ctx ends.
func (l *log) follow(ctx context.Context, topic string, out chan<- txmsg.Delivery) {
	var waiting []delayed
	for offset := 0; ; {
		entries, changed := l.from(offset)
		for i, e := range entries {
			if e.message.Topic == topic {
				waiting = append(waiting, delayed{entry: e, offset: int64(offset + i)})
			}
		}
		offset += len(entries)
		rest, next, ok := sendDue(ctx, waiting, out)
		if !ok {
			return
		}
		waiting = rest
		select {
		case <-changed:
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

type delayed struct {
	entry
	offset int64
}

// sendDue sends those of waiting that are due, in order, and returns the others and a timer for the first of these.
func sendDue(ctx context.Context, waiting []delayed, out chan<- txmsg.Delivery) (rest []delayed, next <-chan time.Time, ok bool) {
	var soonest time.Time
	for _, d := range waiting {
		if d.due.After(time.Now()) {
			rest = append(rest, d)
			if soonest.IsZero() || d.due.Before(soonest) {
				soonest = d.due
			}
			continue
		}
		m := d.message.Clone()
		m.Delay = 0
		select {
		case out <- txmsg.Delivery{Message: m, Source: txmsg.Source{Broker: "memory", Topic: m.Topic, Offset: d.offset}}:
		case <-ctx.Done():
			return nil, nil, false
		}
	}
	if !soonest.IsZero() {
		next = time.After(time.Until(soonest))
	}
	return rest, next, true
}

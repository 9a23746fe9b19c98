package dispatch

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Deliver is what a subscriber's Run is given.
type Deliver func(ctx context.Context, delivery txmsg.Delivery) error

// Pool bounds how many calls of one delivery function run at once, over all its queues.
type Pool struct {
	deliver Deliver
	slots   chan struct{}
	pause   time.Duration
	logger  *slog.Logger
}

// NewPool returns a pool of concurrency calls. The pause before a message is delivered again begins at pause and doubles up
// to maxDoublings times.
func NewPool(deliver Deliver, concurrency int, pause time.Duration, logger *slog.Logger) *Pool {
	return &Pool{deliver: deliver, slots: make(chan struct{}, concurrency), pause: pause, logger: logger}
}

const maxDoublings = 6

// enter takes a slot, unless stopped comes first.
func (p *Pool) enter(stopped <-chan struct{}) bool {
	select {
	case <-stopped:
		return false
	case p.slots <- struct{}{}:
	}
	select {
	case <-stopped: // it may have been closed all along: the choice between two ready channels is random
		<-p.slots
		return false
	default:
		return true
	}
}

func (p *Pool) leave() { <-p.slots }

// wait pauses before the next attempt and reports whether there is to be one.
func (p *Pool) wait(stopped <-chan struct{}, attempt int) bool {
	most := p.pause << min(attempt-1, maxDoublings)
	timer := time.NewTimer(most/2 + rand.N(most/2+1))
	defer timer.Stop()
	select {
	case <-stopped:
		return false
	case <-timer.C:
		return true
	}
}

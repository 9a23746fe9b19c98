package localtable

import (
	"sync"
	"time"
)

// The interval between two acts of a coalescer: it grows with the rate of signals, so that few of them wait at all while they
// are rare, and acts are rare next to them while they are many.
const (
	leastInterval = time.Millisecond
	mostInterval  = 10 * time.Millisecond
	ampleRate     = 2500 // signals a second at which the interval is the longest
)

// coalescer acts on signals: at once on the first, and once for all those that come while it acts or within the interval
// after. It has a goroutine only while it acts.
type coalescer struct {
	act func() (rest time.Duration) // for so long it does not act again, if that is longer than the interval

	mu      sync.Mutex
	signals int  // not yet acted on
	busy    bool // it acts, or its timer runs
	last    time.Time
	next    time.Time
	rate    float64 // signals a second, smoothed
}

// signal never blocks.
func (c *coalescer) signal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signals++
	if !c.busy {
		c.schedule()
	}
}

func (c *coalescer) schedule() {
	c.busy = true
	// A timer for now would do, but it brings down the race detector where time is faked.
	if wait := time.Until(c.next); wait > 0 {
		time.AfterFunc(wait, c.run)
	} else {
		go c.run()
	}
}

func (c *coalescer) run() {
	c.begin()
	rest := c.act()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	if after := time.Now().Add(rest); after.After(c.next) {
		c.next = after
	}
	if c.signals > 0 {
		c.schedule()
	}
}

// begin takes the signals that this act is for.
func (c *coalescer) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	gap := max(now.Sub(c.last), leastInterval)
	c.rate += (min(float64(c.signals)/gap.Seconds(), ampleRate) - c.rate) / 4
	interval := time.Duration(c.rate / ampleRate * float64(mostInterval))
	c.last, c.next = now, now.Add(max(interval, leastInterval))
	c.signals = 0
}

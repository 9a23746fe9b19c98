package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tracker notes when each order's message was committed and when it arrived first. It may be used by many goroutines.
type tracker struct {
	committed, arrived []atomic.Int64 // Unix nanoseconds by order, from 1 on
	count, again       atomic.Int64
	done               chan struct{} // all have arrived
	once               sync.Once
}

func newTracker(count int) *tracker {
	return &tracker{committed: make([]atomic.Int64, count+1), arrived: make([]atomic.Int64, count+1), done: make(chan struct{})}
}

func (t *tracker) commit(id int64) { t.committed[id].Store(time.Now().UnixNano()) }

func (t *tracker) arrive(id int64) {
	now := time.Now().UnixNano()
	if id < 1 || id >= int64(len(t.arrived)) {
		return
	}
	if !t.arrived[id].CompareAndSwap(0, now) {
		t.again.Add(1)
		return
	}
	if t.count.Add(1) == int64(len(t.arrived)-1) {
		t.once.Do(func() { close(t.done) })
	}
}

// wait reports whether all arrived within limit.
func (t *tracker) wait(limit time.Duration) bool {
	select {
	case <-t.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// latencies are the milliseconds from commit to arrival, sorted, of the orders after the first few.
func (t *tracker) latencies(skip int) (sorted []float64, missing int) {
	for id := skip + 1; id < len(t.arrived); id++ {
		committed, arrived := t.committed[id].Load(), t.arrived[id].Load()
		if committed == 0 || arrived == 0 {
			missing++
			continue
		}
		sorted = append(sorted, float64(arrived-committed)/1e6)
	}
	slices.Sort(sorted)
	return sorted, missing
}

// percentile of a sorted list that is not empty.
func percentile(sorted []float64, part float64) float64 {
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))+0.5))]
}

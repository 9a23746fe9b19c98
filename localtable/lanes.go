package localtable

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// lanes are those that this relay holds. The keeper tells which; the reader takes them for a batch and gives them back, so
// that a lane is in at most one batch. A lane whose lease may have run out is no longer held, whatever the keeper meets:
// ends are judged by the monotonic clock from before the lease was asked for.
type lanes struct {
	mu      sync.Mutex
	held    map[int]*heldLane
	busy    map[int]bool  // outlives the lease: a batch may be under way when a lane is lost, and taken again
	settled chan struct{} // a lane that is to leave has become idle
}

type heldLane struct {
	Lane
	end     time.Time
	leaving bool
}

func newLanes() *lanes {
	return &lanes{held: map[int]*heldLane{}, busy: map[int]bool{}, settled: make(chan struct{}, 1)}
}

// renew takes over what a lease says and returns the lanes that are new.
func (l *lanes) renew(lease Lease, end time.Time) (taken []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.held
	l.held = make(map[int]*heldLane, len(lease.Lanes))
	for _, lane := range lease.Lanes {
		was, ok := before[lane.Number]
		if !ok || was.Epoch != lane.Epoch {
			was = &heldLane{Lane: lane}
			taken = append(taken, lane)
		}
		was.end = end
		l.held[lane.Number] = was
	}
	l.retire(lease.Surplus)
	return taken
}

// retire marks exactly n lanes as leaving, idle ones first.
func (l *lanes) retire(n int) {
	order := make([]*heldLane, 0, len(l.held))
	for _, lane := range l.held {
		order = append(order, lane)
	}
	rank := func(lane *heldLane) int {
		switch {
		case lane.leaving:
			return 0
		case !l.busy[lane.Number]:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(order, func(a, b *heldLane) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Number, b.Number))
	})
	for i, lane := range order {
		lane.leaving = i < n
	}
}

// leave removes the leaving lanes that are idle, for the keeper to release.
func (l *lanes) leave() []Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone []Lane
	for number, lane := range l.held {
		if lane.leaving && !l.busy[number] {
			gone = append(gone, lane.Lane)
			delete(l.held, number)
		}
	}
	return gone
}

// free returns the lanes that a batch may take, in the order of their numbers from the given one on and around, and
// how many are held but busy.
func (l *lanes) free(from int) (free []Lane, busy int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for number, lane := range l.held {
		switch {
		case lane.leaving || !now.Before(lane.end):
		case l.busy[number]:
			busy++
		default:
			free = append(free, lane.Lane)
		}
	}
	slices.SortFunc(free, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(bit(a.Number < from), bit(b.Number < from)), cmp.Compare(a.Number, b.Number))
	})
	return free, busy
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// take makes lanes busy.
func (l *lanes) take(lanes []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		l.busy[lane.Number] = true
	}
}

// done gives lanes back.
func (l *lanes) done(lanes []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		delete(l.busy, lane.Number)
		if held := l.held[lane.Number]; held != nil && held.leaving {
			signal(l.settled)
		}
	}
}

// stand returns those of lanes that are still held in the same epoch.
func (l *lanes) stand(lanes []Lane) map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	standing := make(map[int]bool, len(lanes))
	for _, lane := range lanes {
		held := l.held[lane.Number]
		standing[lane.Number] = held != nil && held.Epoch == lane.Epoch && now.Before(held.end)
	}
	return standing
}

// all returns the lanes that are held.
func (l *lanes) all() []Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var all []Lane
	for _, lane := range l.held {
		if now.Before(lane.end) {
			all = append(all, lane.Lane)
		}
	}
	return all
}

// signal sends to a channel of capacity 1 unless a signal is there already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

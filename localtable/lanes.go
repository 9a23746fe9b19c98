package localtable

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// lanes are those that this relay holds. The keeper tells which; readers take them for a batch and give them back, so
// that a lane is in at most one batch of each destination. A lane whose lease may have run out is no longer held, whatever the keeper meets:
// ends are judged by the monotonic clock from before the lease was asked for.
type lanes struct {
	mu      sync.Mutex
	held    map[int]*heldLane
	busy    map[int]users // outlives the lease: a batch may be under way when a lane is lost, and taken again
	whole   time.Time     // when complete ends; zero: some lane is not held
	settled chan struct{} // a lane that is to leave has become idle
}

type heldLane struct {
	Lane
	end     time.Time
	leaving bool
	before  users // of leaving: those whose batches were under way then, and still are
}

// users are the destinations that have a batch with a lane under way.
type users map[string]bool

func newLanes() *lanes {
	return &lanes{held: map[int]*heldLane{}, busy: map[int]users{}, settled: make(chan struct{}, 1)}
}

// renew takes over what a lease says and returns the lanes that can be used now and could not before.
func (l *lanes) renew(lease Lease, end time.Time) (taken []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, before := time.Now(), l.held
	l.held = make(map[int]*heldLane, len(lease.Lanes))
	for _, lane := range lease.Lanes {
		was, ok := before[lane.Number]
		if !ok || was.Epoch != lane.Epoch {
			was = &heldLane{Lane: lane}
		}
		if !now.Before(was.end) {
			taken = append(taken, lane)
		}
		was.end = end
		l.held[lane.Number] = was
	}
	l.whole = time.Time{}
	if len(l.held) == Lanes {
		l.whole = end
	}
	return append(taken, l.retire(lease.Surplus)...)
}

// retire marks exactly n lanes as leaving, idle ones first. It returns those that were to leave and stay.
func (l *lanes) retire(n int) (stay []Lane) {
	order := make([]*heldLane, 0, len(l.held))
	for _, lane := range l.held {
		order = append(order, lane)
	}
	rank := func(lane *heldLane) int {
		switch {
		case lane.leaving:
			return 0
		case len(l.busy[lane.Number]) == 0:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(order, func(a, b *heldLane) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Number, b.Number))
	})
	for i, lane := range order {
		switch leaving := i < n; {
		case leaving && !lane.leaving:
			lane.before = maps.Clone(l.busy[lane.Number])
		case !leaving && lane.leaving:
			stay = append(stay, lane.Lane)
		}
		lane.leaving = i < n
	}
	return stay
}

// leave removes the leaving lanes that are idle, for the keeper to release.
func (l *lanes) leave() []Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone []Lane
	for number, lane := range l.held {
		if lane.leaving && len(l.busy[number]) == 0 {
			gone = append(gone, lane.Lane)
			delete(l.held, number)
			l.whole = time.Time{}
		}
	}
	return gone
}

// free returns the lanes that a batch of a destination may take, in the order of their numbers from the given one on and
// around, and which are held but busy. A lane that is to leave goes on while it must wait for a batch that had begun before:
// one destination's broker that hangs keeps the lane, and the others must not stand still for it.
func (l *lanes) free(destination string, from int) (free []Lane, busy []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for number, lane := range l.held {
		switch {
		case lane.leaving && len(lane.before) == 0, !now.Before(lane.end):
		case l.busy[number][destination]:
			busy = append(busy, number)
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

// take makes lanes busy for a destination.
func (l *lanes) take(destination string, lanes []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		if l.busy[lane.Number] == nil {
			l.busy[lane.Number] = users{}
		}
		l.busy[lane.Number][destination] = true
	}
}

// done gives a destination's lanes back.
func (l *lanes) done(destination string, lanes []Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		delete(l.busy[lane.Number], destination)
		if held := l.held[lane.Number]; held != nil && held.leaving {
			delete(held.before, destination)
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

// complete reports whether this relay holds every lane, so that no other may send.
func (l *lanes) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.whole)
}

// signal sends to a channel of capacity 1 unless a signal is there already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

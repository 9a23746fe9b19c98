package rocketmq

import (
	"sync"

	"github.com/txmsg/txmsg-go/txmsg"
)

// half is one try to store one message as a half message. Two goroutines work on it: the engine's, which runs the
// transaction, and its own, in which the client stores it and then blocks until it is settled.
type half struct {
	id      string // UUIDv7, never used again
	message txmsg.Message
	try     int // 1 for the first

	answerOnce sync.Once
	answered   chan struct{} // closed when it is known whether the half is stored
	err        error         // nil: it is stored; valid after answered
	freeSlot   func()        // runs with the answer

	settleOnce sync.Once
	settled    chan struct{} // closed when the outcome is known, or was given up
	outcome    txmsg.Outcome // valid after settled
}

func newHalf(m txmsg.Message, try int) *half {
	return &half{
		id: txmsg.NewID(), message: m, try: try,
		answered: make(chan struct{}), settled: make(chan struct{}),
	}
}

// answer says whether the half is stored; only its own goroutine calls it. The first answer counts: that the listener was
// called proves it, whatever the client says later.
func (h *half) answer(err error) {
	h.answerOnce.Do(func() {
		h.err = err
		close(h.answered)
		if h.freeSlot != nil {
			h.freeSlot()
		}
	})
}

// settle says what the broker is to be told. The first outcome counts. RolledBack may only be said of a half whose
// record cannot be there and never comes.
func (h *half) settle(outcome txmsg.Outcome) {
	h.settleOnce.Do(func() {
		h.outcome = outcome
		close(h.settled)
	})
}

// registry knows the halves of this process by their IDs.
type registry struct {
	mu     sync.Mutex
	halves map[string]*entry
}

type entry struct {
	half    *half
	calling bool // its goroutine has not returned
	open    bool // its transaction has not ended
}

func newRegistry() *registry { return &registry{halves: map[string]*entry{}} }

// add registers a half of an open transaction whose goroutine is about to start.
func (r *registry) add(h *half) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.halves[h.id] = &entry{half: h, calling: true, open: true}
}

// get returns the half, or nil.
func (r *registry) get(id string) *half {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.halves[id]; e != nil {
		return e.half
	}
	return nil
}

// isOpen reports whether the half's transaction is open in this process: the answer to a check is then known to be Unknown.
func (r *registry) isOpen(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.halves[id]
	return e != nil && e.open
}

// returned notes that the half's goroutine is over.
func (r *registry) returned(h *half) {
	r.update(h, func(e *entry) { e.calling = false })
}

// ended notes that the half's transaction is over.
func (r *registry) ended(h *half) {
	r.update(h, func(e *entry) { e.open = false })
}

func (r *registry) update(h *half, change func(*entry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.halves[h.id]
	if e == nil {
		return
	}
	change(e)
	if !e.calling && !e.open {
		delete(r.halves, h.id)
	}
}

// giveUp settles every half that is not settled as Unknown, and returns how many it looked at.
func (r *registry) giveUp() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.halves {
		e.half.settle(txmsg.Unknown)
	}
	return len(r.halves)
}

// gate counts those inside, and refuses more once it is shut.
type gate struct {
	mu     sync.Mutex
	shut   bool
	inside int
	empty  chan struct{} // closed when it is shut and nobody is inside
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.shut && g.inside == 0 {
		close(g.empty)
	}
}

// close refuses more and returns a channel that is closed when all have left.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

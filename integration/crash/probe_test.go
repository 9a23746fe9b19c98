package crash

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"

	"github.com/txmsg/txmsg-go/localtable"
)

// probe counts the passes of the point in a child, knows what is in flight, and kills or freezes the process.
type probe struct {
	plan    plan
	reports io.Writer

	mu         sync.Mutex
	passes     int
	woken      bool // from its freezing
	inFlight   map[string]bool
	departures sync.Cond                // something was added to inFlight
	lanes      map[localtable.Lane]bool // held at some time before
}

func newProbe(p plan, reports io.Writer) *probe {
	created := &probe{plan: p, reports: reports, inFlight: map[string]bool{}, lanes: map[localtable.Lane]bool{}}
	created.departures.L = &created.mu
	return created
}

// at passes a point. At the pass that the plan is about it does not return, or only when the process is woken.
func (p *probe) at(passed point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if passed != p.plan.Point || p.plan.Pass == 0 {
		return
	}
	for p.plan.EndRun && len(p.inFlight) == 0 { // this point is passed once, and the writers go on
		p.departures.Wait()
	}
	if p.plan.Writers > 0 && len(p.inFlight) == 0 {
		return // dying now would show nothing
	}
	if p.passes++; p.passes != p.plan.Pass {
		return
	}
	p.report("reached", fmt.Sprint(len(p.inFlight)))
	if p.plan.Freeze {
		freeze()
		p.woken = true
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// report tells the parent. It has left the process when the call returns.
func (p *probe) report(kind, text string) { fmt.Fprintln(p.reports, kind, text) }

// departed notes a message that was published in a callback.
func (p *probe) departed(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight[id] = true
	p.departures.Broadcast()
}

// arrived notes messages of which the process knows what became: rolled back, or settled.
func (p *probe) arrived(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.inFlight, id)
	}
}

// leased notes lanes that the process holds before it is frozen.
func (p *probe) leased(lanes []localtable.Lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.woken {
		return
	}
	for _, lane := range lanes {
		p.lanes[lane] = true
	}
}

// stale reports whether a settlement after the waking is of lanes as they were held before.
func (p *probe) stale(lanes []localtable.Lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.woken && !slices.ContainsFunc(lanes, func(lane localtable.Lane) bool { return !p.lanes[lane] })
}

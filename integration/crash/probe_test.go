package crash

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// probe counts the passes of the point in a child, knows what is in flight, and kills or freezes the process.
type probe struct {
	plan    plan
	reports *os.File

	mu       sync.Mutex
	passes   int
	inFlight map[string]bool
}

func newProbe(p plan, reports *os.File) *probe {
	return &probe{plan: p, reports: reports, inFlight: map[string]bool{}}
}

// at passes a point. At the pass that the plan is about it does not return, or only when the process is woken.
func (p *probe) at(passed point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if passed != p.plan.Point || p.plan.Pass == 0 {
		return
	}
	if p.passes++; p.passes != p.plan.Pass {
		return
	}
	p.report("reached", fmt.Sprint(len(p.inFlight)))
	if p.plan.Freeze {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
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
}

// arrived notes messages of which the process knows what became: rolled back, or settled.
func (p *probe) arrived(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.inFlight, id)
	}
}

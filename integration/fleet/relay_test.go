package fleet

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/subprocess"
)

// reports are what all relays have told.
type reports struct {
	mu      sync.Mutex
	refused map[string]int  // how often, by message
	passed  map[string]bool // messages that could have been refused and were given to the broker
}

func (r *reports) add(into string, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if into == "refused" {
		r.refused[id]++
	} else {
		r.passed[id] = true
	}
}

// instance is a relay's process as its parent sees it.
type instance struct {
	*subprocess.Process
	listening chan struct{}

	mu              sync.Mutex
	flying, refused int
	paused          bool
}

// start runs a relay; it dies with the test binary.
func start(t *testing.T, p plan, all *reports) *instance {
	t.Helper()
	r := &instance{listening: make(chan struct{})}
	r.Process = subprocess.Start(t, planVariable, p, func(line string) { r.take(line, all) })
	return r
}

func (r *instance) take(line string, all *reports) {
	switch kind, rest, _ := strings.Cut(line, " "); kind {
	case "listening":
		close(r.listening)
	case "flying":
		r.mu.Lock()
		defer r.mu.Unlock()
		_, _ = fmt.Sscan(rest, &r.flying, &r.refused)
	default:
		all.add(kind, rest)
	}
}

func (r *instance) inFlight() (flying, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flying, r.refused
}

func (r *instance) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused
}

// kill ends the process and returns what was in flight.
func (r *instance) kill(t *testing.T) int {
	t.Helper()
	require.NoError(t, r.Command.Process.Kill())
	<-r.Ended
	status, ok := r.Command.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled(), "a relay ended by itself: %s: %s", r.Command.ProcessState, r.Tail())
	flying, _ := r.inFlight()
	return flying
}

// pause stops the process for so long; done is called when it goes on.
func (r *instance) pause(t *testing.T, d time.Duration, done func()) {
	t.Helper()
	require.NoError(t, r.Command.Process.Signal(syscall.SIGSTOP))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
	time.AfterFunc(d, func() {
		defer done()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paused = false
		_ = r.Command.Process.Signal(syscall.SIGCONT)
	})
}

// end tells the process to end in order, and waits for it.
func (r *instance) end(t *testing.T) {
	t.Helper()
	select {
	case <-r.listening:
	case <-r.Ended:
	case <-time.After(patience):
	}
	r.End(t, patience)
}

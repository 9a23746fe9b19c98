package crash

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/subprocess"
)

// patience bounds what a child may take for one step: it is there for failures, and for machines with much else to do.
const patience = 90 * time.Second

// child is a process that the test has started.
type child struct {
	*subprocess.Process
	reached chan int // messages in flight when it reached its point

	mu      sync.Mutex
	reports map[string][]string // by kind
}

// start runs a child; it dies with the test binary.
func start(t *testing.T, p plan) *child {
	t.Helper()
	c := &child{reached: make(chan int, 1), reports: map[string][]string{}}
	c.Process = subprocess.Start(t, planVariable, p, c.take)
	return c
}

func (c *child) take(line string) {
	kind, text, _ := strings.Cut(line, " ")
	if kind == "reached" {
		n, _ := strconv.Atoi(text)
		c.reached <- n
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports[kind] = append(c.reports[kind], text)
}

func (c *child) reported(kind string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports[kind])
}

// awaitReached waits for the child's point and returns how many messages were in flight.
func (c *child) awaitReached(t *testing.T) (inFlight int) {
	t.Helper()
	select {
	case n := <-c.reached:
		return n
	case <-c.Ended:
		select {
		case n := <-c.reached: // its last words
			return n
		default:
		}
		require.Fail(t, "the process ended before it reached its point", "%s: %s", c.Command.ProcessState, c.Tail())
	case <-time.After(patience):
		require.Fail(t, "the process did not reach its point", "within %s", patience)
	}
	return 0
}

// awaitKilled waits until the child has killed itself.
func (c *child) awaitKilled(t *testing.T) {
	t.Helper()
	select {
	case <-c.Ended:
	case <-time.After(patience):
		require.Fail(t, "the process did not die")
	}
	status, ok := c.Command.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "the process ended otherwise: %s: %s", c.Command.ProcessState, c.Tail())
}

// end tells the child to end in order, and waits for it.
func (c *child) end(t *testing.T) {
	t.Helper()
	await(t, "the process to listen", func() bool {
		c.RequireAlive(t)
		return len(c.reported("listening")) > 0
	})
	c.End(t, patience)
}

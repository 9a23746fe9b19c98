// Package subprocess runs a test binary again as a process that may be killed, with a pipe on which it tells what it does.
package subprocess

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
)

// Process is a child as its parent sees it. Its Command's state is there when Ended is closed.
type Process struct {
	Command *exec.Cmd
	Ended   chan struct{} // closed when the process has ended and all that it told has been read
	log     services.Log
}

// Start runs this binary with plan in the environment, under variable. take gets the lines that the child tells, one at a
// time. The child dies with this binary, and is killed when t ends.
func Start(t testing.TB, variable string, plan any, take func(line string)) *Process {
	t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	p := &Process{Command: exec.Command(os.Args[0]), Ended: make(chan struct{})}
	p.Command.Env = append(os.Environ(), variable+"="+string(text))
	p.Command.ExtraFiles = []*os.File{writer}
	p.Command.Stderr = &p.log
	services.EndWithParent(p.Command)
	require.NoError(t, p.Command.Start())
	require.NoError(t, writer.Close())
	go func() {
		defer close(p.Ended)
		defer reader.Close()
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			take(lines.Text())
		}
		_ = p.Command.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Command.Process.Kill()
		<-p.Ended
	})
	return p
}

// End tells the process to end in order, and requires that it does so within patience.
func (p *Process) End(t testing.TB, patience time.Duration) {
	t.Helper()
	require.NoError(t, p.Command.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.Ended:
	case <-time.After(patience):
		require.Fail(t, "the process did not end", "within %s of SIGTERM: %s", patience, p.Tail())
	}
	require.True(t, p.Command.ProcessState.Success(), "the process failed: %s: %s", p.Command.ProcessState, p.Tail())
}

// RequireAlive requires that the process has not ended.
func (p *Process) RequireAlive(t testing.TB) {
	t.Helper()
	select {
	case <-p.Ended:
		require.Fail(t, "the process ended by itself", "%s: %s", p.Command.ProcessState, p.Tail())
	default:
	}
}

// Tail is the end of what the process wrote to its standard error.
func (p *Process) Tail() string {
	text := p.log.String()
	return text[max(0, len(text)-4000):]
}

// Be is the whole life of a child: it runs, with the plan that Start was given, until it is done or SIGTERM ends ctx, and
// returns its exit code. The lines that run writes to reports go to the parent.
func Be[P any](plan string, run func(ctx context.Context, plan P, reports io.Writer) error) int {
	var p P
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p, os.NewFile(3, "reports")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

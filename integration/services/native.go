package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// daemon is one process of a native instance.
type daemon struct {
	name string
	argv []string
	env  []string // added to the environment
	user *syscall.Credential
	stop syscall.Signal // ends it in order
	quit syscall.Signal // ends it fast and leaves nothing behind in the system
	// ready returns nil once the next daemon can be started.
	ready func(ctx context.Context) error
}

// native is an instance made of processes. Faults hit the last daemon; those before it serve it.
type native struct {
	service *service
	place   place
	daemons []daemon
	started map[string]*exec.Cmd
	sweeper *sweeper // nil once released
}

var _ instance = (*native)(nil)

func newNative(ctx context.Context, s *service, p place) (*native, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("native %s needs Linux, this is %s: %w", s.name, runtime.GOOS, errMissing)
	}
	if err := s.installed(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, errMissing)
	}
	dir, err := os.MkdirTemp("", folderPrefix+s.name+"-")
	if err != nil {
		return nil, err
	}
	p.dir = dir
	n := &native{service: s, place: p, started: map[string]*exec.Cmd{}}
	// A server may run as a user of its own, which has to get at the folders below.
	if err = os.Chmod(dir, 0o755); err == nil {
		n.sweeper, err = newSweeper(dir)
	}
	if err == nil {
		n.daemons, err = s.native(ctx, p)
	}
	if err != nil {
		return nil, errors.Join(err, n.remove(ctx))
	}
	return n, nil
}

func (n *native) address() string { return n.service.address(n.place) }

func (n *native) release() (trace, error) {
	err := n.sweeper.dismiss()
	n.sweeper = nil
	return trace{Service: n.service.name, Address: n.address(), Folder: n.place.dir}, err
}

func (n *native) start(ctx context.Context) error {
	for _, d := range n.daemons {
		process, err := readProcess(n.file(d, "pid"))
		if err == nil && process.alive() {
			continue
		}
		if process, err = n.spawn(d); err != nil {
			return fmt.Errorf("start %s: %w", d.name, err)
		}
		err = await(ctx, d.ready, func() error {
			if process.alive() {
				return nil
			}
			return errors.New("ended before it was ready")
		})
		if err != nil {
			return fmt.Errorf("start %s: %w\n%s", d.name, err, tail(n.file(d, "log")))
		}
	}
	return nil
}

func (n *native) spawn(d daemon) (process, error) {
	log, err := os.OpenFile(n.file(d, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	command := exec.Command(d.argv[0], d.argv[1:]...)
	command.Dir, command.Env = n.place.dir, append(os.Environ(), d.env...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: d.user}
	n.reap(d)
	if err := command.Start(); err != nil {
		return process{}, err
	}
	n.started[d.name] = command
	started, err := processByID(command.Process.Pid)
	if err != nil {
		return process{}, err
	}
	line := fmt.Sprintf("%d %s %s\n", started.id, started.start, signalName(d.quit))
	return started, os.WriteFile(n.file(d, "pid"), []byte(line), 0o644)
}

func (n *native) stop(ctx context.Context) error {
	d, process, err := n.main()
	if err != nil || !process.alive() {
		return err
	}
	if err := process.signalTree(syscall.SIGCONT); err != nil {
		return err
	}
	if err := process.signal(d.stop); err != nil {
		return err
	}
	return n.ended(ctx, d, process)
}

func (n *native) kill(ctx context.Context) error {
	d, process, err := n.main()
	if err != nil || !process.alive() {
		return err
	}
	if err := process.signalTree(syscall.SIGSTOP); err != nil {
		return err
	}
	children := process.children()
	if err := process.signalTree(syscall.SIGSTOP, syscall.SIGKILL); err != nil { // stopped first: a dead one has no children to find
		return err
	}
	for _, child := range children { // while one lives, PostgreSQL does not start again
		if err := child.wait(ctx); err != nil {
			return err
		}
	}
	return n.ended(ctx, d, process)
}

func (n *native) pause(context.Context) error {
	_, process, err := n.main()
	if err != nil {
		return err
	}
	return process.signalTree(syscall.SIGSTOP)
}

func (n *native) resume(context.Context) error {
	_, process, err := n.main()
	if err != nil {
		return err
	}
	return process.signalTree(syscall.SIGCONT)
}

func (n *native) remove(ctx context.Context) error {
	if n.sweeper == nil {
		return sweepFolder(ctx, n.place.dir)
	}
	err := n.sweeper.sweep()
	for _, d := range n.daemons {
		n.reap(d)
	}
	return err
}

// main is the daemon that faults hit.
func (n *native) main() (daemon, process, error) {
	d := n.daemons[len(n.daemons)-1]
	process, err := readProcess(n.file(d, "pid"))
	return d, process, err
}

func (n *native) ended(ctx context.Context, d daemon, process process) error {
	if err := process.wait(ctx); err != nil {
		return err
	}
	n.reap(d)
	return nil
}

// reap releases what the system keeps about an ended child. How it ended does not matter.
func (n *native) reap(d daemon) {
	if command := n.started[d.name]; command != nil {
		_ = command.Wait()
		delete(n.started, d.name)
	}
}

func (n *native) file(d daemon, kind string) string {
	return filepath.Join(n.place.dir, d.name+"."+kind)
}

func signalName(signal syscall.Signal) string {
	if signal == syscall.SIGQUIT {
		return "QUIT"
	}
	return "KILL"
}

// tail returns the end of a log for an error message.
func tail(file string) string {
	const most = 4096
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// startTimeout bounds one start: the slowest is a container whose image is pulled first.
const startTimeout = 5 * time.Minute

// errMissing is wrapped by every error that says what the machine lacks, as against a server that is there and fails.
var errMissing = errors.New("not available on this machine")

// service is one kind of server: how it is found, started, and asked whether it serves.
type service struct {
	name     string
	variable string
	// ports is how many consecutive ports an instance takes. The last serves clients.
	ports   int
	address func(p place) string
	// ready does a real operation at address and returns nil once that succeeded.
	ready func(ctx context.Context, address string) error
	// native prepares the data folder and returns the processes in the order they are started.
	native func(ctx context.Context, p place) ([]daemon, error)
	image  func(p place) image
	// installed returns nil when the programs of a native start are there, else what is missing.
	installed func() error
	packages  []string // Debian's, with those programs

	once sync.Once
	// shared is held for the life of the process: once it is garbage, the pipe that keeps its sweeper waiting is closed.
	shared instance
	err    error
}

// all is every service, in the order the command starts and prints them.
var all = []*service{postgres, kafka, nats, rocketmq}

// place is where one instance of a service lives.
type place struct {
	dir    string            // configuration, data and logs of a native instance
	bind   string            // the IP address it listens at
	host   string            // the IP address clients reach it at
	ports  []int             // consecutive and free when chosen
	config map[string]string // settings on top of the service's own
}

// port is the one clients use.
func (p place) port() int { return p.ports[len(p.ports)-1] }

// instance is one started server, whatever runs it. It ends with the process that started it, however that ends.
type instance interface {
	address() string
	// start starts what does not run, and returns when the server serves.
	start(ctx context.Context) error
	// stop asks the server to end in order and waits until it did. A frozen server is thawed first.
	stop(ctx context.Context) error
	kill(ctx context.Context) error
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	// remove ends everything that belongs to the instance and deletes its data.
	remove(ctx context.Context) error
	// release lets the instance outlive the process that started it, and returns what a later one needs to find it.
	release() (trace, error)
}

// provide returns the address of s for a test, started if need be.
func (s *service) provide(t testing.TB) string {
	t.Helper()
	if address := os.Getenv(s.variable); address != "" {
		return address
	}
	skipShort(t, s)
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		s.shared, s.err = s.launch(ctx, place{})
	})
	if s.err != nil {
		s.miss(t, fmt.Errorf("%w (set %s to use a running server)", s.err, s.variable))
	}
	return s.shared.address()
}

// skipShort comes before any start. Who asks for -short asks for the skip, so it is no fault where CI is set either.
func skipShort(t testing.TB, s *service) {
	t.Helper()
	if testing.Short() {
		t.Skipf("%s: nothing is started with -short", s.name)
	}
}

// miss ends a test that cannot have its service. One that is installed and does not start is a fault everywhere.
func (s *service) miss(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" || !errors.Is(err, errMissing) {
		t.Fatalf("%s: %v", s.name, err)
	}
	t.Skipf("%s: %v", s.name, err)
}

// launch starts a new instance: in a container where Docker answers, else as native processes.
func (s *service) launch(ctx context.Context, p place) (instance, error) {
	var refused error
	if engine, err := dockerEngine(ctx); err == nil {
		running, err := s.launchIn(ctx, p, func(p place) (instance, error) { return newContainer(ctx, s, p, engine) })
		if err == nil {
			return running, nil
		}
		refused = fmt.Errorf("docker: %w", err)
	}
	running, err := s.launchIn(ctx, p, func(p place) (instance, error) { return newNative(ctx, s, p) })
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	return running, nil
}

// launchIn chooses ports unless p has them, and tries again with others: they may be taken between choice and start.
func (s *service) launchIn(ctx context.Context, p place, create func(place) (instance, error)) (instance, error) {
	if p.host == "" {
		p.bind, p.host = loopback, loopback
	}
	attempts := 2
	if p.ports != nil {
		attempts = 1
	}
	var last error
	for range attempts {
		chosen := p
		if chosen.ports == nil {
			ports, err := freePorts(s.ports)
			if err != nil {
				return nil, err
			}
			chosen.ports = ports
		}
		running, err := create(chosen)
		if err != nil {
			return nil, err
		}
		if err = running.start(ctx); err == nil {
			return running, nil
		}
		last = errors.Join(err, running.remove(context.WithoutCancel(ctx)))
	}
	return nil, fmt.Errorf("start %s: %w", s.name, last)
}

// await repeats ask until it returns nil, alive returns an error, or ctx ends.
func await(ctx context.Context, ask func(context.Context) error, alive func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ask(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if dead := alive(); dead != nil {
			return dead
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (last answer: %w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

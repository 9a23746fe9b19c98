package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Stand is a set of servers that outlives the process that started it, for all test binaries of one checkout.
// Stands with different folders share nothing.
type Stand struct {
	// Folder holds what the stand knows about its servers. Required.
	Folder string
	// Install lets Up install missing Debian packages, which needs root.
	Install bool
}

// Address tells where one service of a stand is.
type Address struct {
	Service  string
	Variable string // the environment variable by which tests find it
	Value    string // empty when there is none
	Origin   string // what runs it
	Serves   bool   // it did a real operation when last asked
}

// trace is how a stand finds an instance again.
type trace struct {
	Service   string
	Address   string
	Folder    string `json:",omitempty"` // of a native instance
	Container string `json:",omitempty"`
}

func (t trace) origin() string {
	if t.Container != "" {
		return "container " + t.Container
	}
	return "processes in " + t.Folder
}

// Up starts the named services, all without names, and returns when each serves. One that serves already is left as it is,
// one that does not is replaced. An address in the environment is taken as it is if a server answers there, and is an
// error if none does.
func (s Stand) Up(ctx context.Context, names ...string) ([]Address, error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	// The container library would otherwise remove containers at the end of this process. It reads this once.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, err
	}
	traces, unlock, err := s.open()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if s.Install {
		if err := installPackages(ctx, withPoolers(chosen)); err != nil {
			return nil, err
		}
	}
	addresses := make([]Address, len(chosen))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, service := range chosen {
		group.Go(func() (err error) {
			addresses[i], err = traces.up(groupCtx, service)
			return err
		})
	}
	return addresses, group.Wait()
}

// Down ends the named services of the stand, all without names, and deletes their data. It touches nothing that the
// stand did not start. It returns the addresses that no longer hold.
func (s Stand) Down(ctx context.Context, names ...string) ([]Address, error) {
	chosen, err := choose(names)
	if err != nil {
		return nil, err
	}
	traces, unlock, err := s.open()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var addresses []Address
	var failed error
	for _, service := range chosen {
		if t, ok := traces.of[service.name]; ok {
			addresses = append(addresses, Address{Service: service.name, Variable: service.variable, Value: t.Address})
			failed = errors.Join(failed, traces.remove(ctx, t))
		}
	}
	return addresses, failed
}

// Status asks every service of the stand, and at addresses in the environment, whether it serves.
func (s Stand) Status(ctx context.Context) ([]Address, error) {
	traces, unlock, err := s.open()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var addresses []Address
	for _, service := range all {
		address := Address{Service: service.name, Variable: service.variable}
		if t, ok := traces.of[service.name]; ok {
			address.Value, address.Origin = t.Address, t.origin()
		} else if given := os.Getenv(service.variable); given != "" {
			address.Value, address.Origin = given, "environment"
		}
		address.Serves = address.Value != "" && service.serves(ctx, address.Value) == nil
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func choose(names []string) ([]*service, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []*service
	for _, name := range names {
		i := slices.IndexFunc(all, func(s *service) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("service must be postgres, kafka, nats or rocketmq, got %q", name)
		}
		if !slices.Contains(chosen, all[i]) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// withPoolers adds what tests start by themselves before a chosen service.
func withPoolers(chosen []*service) []*service {
	if slices.Contains(chosen, postgres) {
		return append(slices.Clone(chosen), pgbouncer(&url.URL{}))
	}
	return chosen
}

// serves asks once.
func (s *service) serves(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.ready(ctx, address)
}

// traces is the stand's memory, written after every change: what was started is found again whatever happens.
type traces struct {
	mu   sync.Mutex
	file string
	of   map[string]trace
}

// open reads the stand's memory and keeps other processes out until unlock.
func (s Stand) open() (known *traces, unlock func(), err error) {
	if err := os.MkdirAll(s.Folder, 0o755); err != nil {
		return nil, nil, err
	}
	if unlock, err = lock(filepath.Join(s.Folder, "lock")); err != nil {
		return nil, nil, err
	}
	known = &traces{file: filepath.Join(s.Folder, "state.json"), of: map[string]trace{}}
	text, err := os.ReadFile(known.file)
	if err == nil {
		err = json.Unmarshal(text, &known.of)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		unlock()
		return nil, nil, fmt.Errorf("read %s: %w", known.file, err)
	}
	return known, unlock, nil
}

func (t *traces) up(ctx context.Context, s *service) (Address, error) {
	address := Address{Service: s.name, Variable: s.variable, Serves: true}
	t.mu.Lock()
	known, ok := t.of[s.name]
	t.mu.Unlock()
	given := os.Getenv(s.variable)
	if given != "" && given != known.Address {
		address.Value, address.Origin = given, "environment"
		if err := s.serves(ctx, given); err != nil {
			return Address{}, fmt.Errorf("no server answers at %s=%s (unset it to have one started): %w", s.variable, given, err)
		}
		return address, nil
	}
	if ok {
		if s.serves(ctx, known.Address) == nil {
			address.Value, address.Origin = known.Address, known.origin()
			return address, nil
		}
		if err := t.remove(ctx, known); err != nil {
			return Address{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	started, err := s.launch(ctx, place{})
	if err != nil {
		return Address{}, err
	}
	if known, err = started.release(); err != nil {
		return Address{}, errors.Join(err, started.remove(ctx))
	}
	address.Value, address.Origin = known.Address, known.origin()
	return address, t.change(func() { t.of[s.name] = known })
}

func (t *traces) remove(ctx context.Context, known trace) error {
	if known.Container != "" {
		engine, err := dockerEngine(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(removeContainer(ctx, engine, known.Container), engine.Close()); err != nil {
			return err
		}
	} else if err := sweepFolder(ctx, known.Folder); err != nil {
		return err
	}
	return t.change(func() { delete(t.of, known.Service) })
}

func (t *traces) change(apply func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	apply()
	text, err := json.MarshalIndent(t.of, "", "\t")
	if err != nil {
		return err
	}
	next := t.file + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, t.file)
}

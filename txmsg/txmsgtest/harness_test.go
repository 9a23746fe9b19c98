package txmsgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// faults are the ways in which the in-memory backend of the tests can be broken; the zero value is sound.
type faults struct {
	begin    func(txmsg.Transaction[*Tx], *broken) txmsg.Transaction[*Tx]                   // the database
	attempt  func(txmsg.Attempt, *broken) txmsg.Attempt                                     // the messenger's part of a run
	transact func(ctx context.Context, b *broken, fn callback) error                        // the engine
	run      func(ctx context.Context, b *broken) error                                     // the background work
	receive  func(copies int, d txmsg.Delivery) (txmsg.Delivery, bool)                      // the broker; false: lost
	config   func(*txmsg.TransactConfig)                                                    // what the messenger declares
	reader   func(ctx context.Context, in <-chan txmsg.Delivery, out chan<- txmsg.Delivery) // instead of receive
}

type callback = func(ctx context.Context, tx *Tx, out txmsg.Publisher) error

// broken is a Memory with faults.
type broken struct {
	*Memory
	faults
	world   *memoryWorld
	running atomic.Bool
}

func (b *broken) Transact(ctx context.Context, fn callback) error {
	if b.transact != nil {
		return b.transact(ctx, b, fn)
	}
	return b.engine(ctx, fn)
}

// engine is Memory.Transact with faults at its seams.
func (b *broken) engine(ctx context.Context, fn callback) error {
	cfg := txmsg.TransactConfig{Abilities: b.Abilities(), CommitTimeout: time.Second, ResolveTimeout: 20 * time.Millisecond}
	if b.config != nil {
		b.config(&cfg)
	}
	start := func(tx txmsg.Transaction[*Tx]) txmsg.Attempt {
		if a := newAttempt(tx); b.attempt == nil {
			return a
		} else {
			return b.attempt(a, b)
		}
	}
	return txmsg.Transact(ctx, b, cfg, start, fn)
}

func (b *broken) Run(ctx context.Context) error {
	if b.run != nil {
		return b.run(ctx, b)
	}
	return b.Memory.Run(ctx)
}

// Begin and its siblings make broken its own database.
func (b *broken) Begin(ctx context.Context, savepoint func() func()) (txmsg.Transaction[*Tx], error) {
	tx, err := b.db.Begin(ctx, savepoint)
	if err != nil {
		return nil, err
	}
	tx = &flaky{Transaction: tx, world: b.world}
	if b.begin != nil {
		tx = b.begin(tx, b)
	}
	return tx, nil
}

func (b *broken) Exec(ctx context.Context, tx *Tx, stmts ...txmsg.Statement) error {
	return b.db.Exec(ctx, tx, stmts...)
}

func (b *broken) Conflict(err error) bool { return b.db.Conflict(err) }

// memoryWorld is the bundle's state beside the database: the fault that is on.
type memoryWorld struct {
	mu        sync.Mutex
	commit    *commitFault
	redeliver bool
}

type commitFault struct {
	committed bool // COMMIT takes effect
	told      bool // the database can say afterwards
	hit       func()
}

// flaky loses the answers to COMMIT while the world says so.
type flaky struct {
	txmsg.Transaction[*Tx]
	world  *memoryWorld
	silent bool
}

var errLostReply = errors.New("connection reset")

func (f *flaky) Commit(ctx context.Context, along ...txmsg.Statement) error {
	f.world.mu.Lock()
	fault := f.world.commit
	f.world.mu.Unlock()
	if f.Tx().changes["fail commit"].value != "" {
		_ = f.Transaction.Rollback(ctx)
		return errors.New("deferred constraint")
	}
	if fault == nil {
		return f.Transaction.Commit(ctx, along...)
	}
	f.silent = !fault.told
	end := f.Transaction.Rollback
	if fault.committed {
		end = func(ctx context.Context) error { return f.Transaction.Commit(ctx, along...) }
	}
	err := end(ctx)
	fault.hit()
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("commit: %w", cause) // the caller's context must not reach COMMIT
	}
	return errors.Join(txmsg.ErrOutcomeUnknown, errLostReply, err)
}

func (f *flaky) Outcome(ctx context.Context) (txmsg.Outcome, error) {
	if f.silent {
		return txmsg.Unknown, nil
	}
	return f.Transaction.Outcome(ctx)
}

// memoryHarness is the suite's harness of the in-memory backend, with faults.
func memoryHarness(f faults) Harness[*Tx] {
	return Harness[*Tx]{
		Abilities: txmsg.Abilities{Order: true, Delay: true},
		Wait:      5 * time.Second,
		Open:      func(*testing.T) Bundle[*Tx] { return memoryBundle(f) },
	}
}

func memoryBundle(f faults) Bundle[*Tx] {
	own, world := newDatabase(), &memoryWorld{}
	open := func(db txmsg.Database[*Tx]) *broken {
		return &broken{Memory: &Memory{db: db, own: own}, faults: f, world: world}
	}
	return Bundle[*Tx]{
		Messenger: func(*testing.T) txmsg.Messenger[*Tx] { return open(own) },
		Write: func(_ context.Context, tx *Tx, id string) error {
			if _, there := tx.Get(id); there {
				return errors.New("duplicate row")
			}
			return tx.Put(id, "row")
		},
		Rows: func(context.Context) ([]string, error) {
			var ids []string
			for key, value := range own.Values() {
				if value == "row" {
					ids = append(ids, key)
				}
			}
			return ids, nil
		},
		Nested: func(ctx context.Context, tx *Tx, _ txmsg.Publisher, fn func(context.Context, *Tx) error) error {
			return tx.Nested(func(tx *Tx) error { return fn(ctx, tx) })
		},
		Topic: func(*testing.T) string { return "topic-" + txmsg.NewID() },
		Receive: func(ctx context.Context, _ *testing.T, topic string) <-chan txmsg.Delivery {
			return receive(ctx, (&Memory{own: own}).Deliveries(ctx, topic), f, world)
		},
		Hooks: memoryHooks(world, open, own),
	}
}

func memoryHooks(world *memoryWorld, open func(txmsg.Database[*Tx]) *broken, own *database) Hooks[*Tx] {
	unclear := func(name string, fault commitFault) Fault[*Tx] {
		return Fault[*Tx]{Name: name, Committed: fault.committed, Start: func(_ *testing.T, _ *Tx, hit func()) func() {
			fault.hit = hit
			return world.set(&fault)
		}}
	}
	return Hooks[*Tx]{
		Conflict: ErrConflict,
		Contend: func(_ context.Context, tx *Tx, meet func()) error {
			value, _ := tx.Get("account")
			meet()
			return tx.Put("account", value+"+")
		},
		FailStatement: func(context.Context, *Tx) error { return errors.New("syntax") },
		FailCommit:    func(_ context.Context, tx *Tx) error { return tx.Put("fail commit", "yes") },
		UnclearCommits: []Fault[*Tx]{
			unclear("the reply is lost and the database can say", commitFault{committed: true, told: true}),
			unclear("the reply is lost and nobody can say", commitFault{committed: true}),
			unclear("the request is lost and the database can say", commitFault{told: true}),
			unclear("the request is lost and nobody can say", commitFault{}),
		},
		Redeliver: func(*testing.T) {
			world.mu.Lock()
			defer world.mu.Unlock()
			world.redeliver = true
		},
		Pooled: func(_ *testing.T, connections int) txmsg.Messenger[*Tx] {
			return open(&pooled{Database: own, slots: make(chan struct{}, connections)})
		},
	}
}

func (w *memoryWorld) faulty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commit != nil
}

func (w *memoryWorld) set(fault *commitFault) (reset func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commit = fault
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.commit = nil
	}
}

// receive passes deliveries on, twice while the world says so.
func receive(ctx context.Context, in <-chan txmsg.Delivery, f faults, world *memoryWorld) <-chan txmsg.Delivery {
	out := make(chan txmsg.Delivery)
	go func() {
		defer close(out)
		if f.reader != nil {
			f.reader(ctx, in, out)
			return
		}
		for d := range in {
			world.mu.Lock()
			copies := 1
			if world.redeliver {
				copies = 2
			}
			world.mu.Unlock()
			for i := range copies {
				d, ok := d, true
				if f.receive != nil {
					d, ok = f.receive(i+1, d)
				}
				if !ok {
					continue
				}
				select {
				case out <- d:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// pooled gives each transaction one of a few connections.
type pooled struct {
	txmsg.Database[*Tx]
	slots chan struct{}
}

func (p *pooled) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pooled) Begin(ctx context.Context, savepoint func() func()) (txmsg.Transaction[*Tx], error) {
	if err := p.acquire(ctx); err != nil {
		return nil, err
	}
	tx, err := p.Database.Begin(ctx, savepoint)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return &pooledTransaction{Transaction: tx, release: sync.OnceFunc(func() { <-p.slots })}, nil
}

type pooledTransaction struct {
	txmsg.Transaction[*Tx]
	release func()
}

func (p *pooledTransaction) Commit(ctx context.Context, along ...txmsg.Statement) error {
	defer p.release()
	return p.Transaction.Commit(ctx, along...)
}

func (p *pooledTransaction) Rollback(ctx context.Context) error {
	defer p.release()
	return p.Transaction.Rollback(ctx)
}

func TestMemory(t *testing.T) { Run(t, memoryHarness(faults{})) }

// A backend without order and delay is held to what it declares.
func TestMemoryWithoutAbilities(t *testing.T) {
	h := memoryHarness(faults{config: func(cfg *txmsg.TransactConfig) { cfg.Abilities = txmsg.Abilities{} }})
	h.Abilities = txmsg.Abilities{}
	h.Scale = Scale{Workers: 4, Rounds: 20}
	open := h.Open
	h.Open = func(t *testing.T) Bundle[*Tx] {
		b := open(t)
		messenger := b.Messenger
		b.Messenger = func(t *testing.T) txmsg.Messenger[*Tx] { return unable{messenger(t)} }
		b.Quiesce = func(context.Context) error { return nil }
		b.Hooks = Hooks[*Tx]{}
		return b
	}
	Run(t, h)
}

type unable struct{ txmsg.Messenger[*Tx] }

func (unable) Abilities() txmsg.Abilities { return txmsg.Abilities{} }

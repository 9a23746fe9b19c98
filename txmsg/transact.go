package txmsg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Attempt is one run of a transaction's callback as a backend sees it. The engine calls it from one goroutine.
type Attempt interface {
	// Publish takes messages that are valid, have an ID and share no memory with the caller's. An error takes none of
	// them and is the callback's to handle.
	Publish(ctx context.Context, msgs []Message) error
	// Savepoint marks the messages taken so far; the function it returns forgets the later ones.
	Savepoint() (rollback func())
	// Prepare runs after the callback has returned nil and before COMMIT; its statements are written along with the
	// commit. An error rolls back.
	Prepare(ctx context.Context) ([]Statement, error)
	// Resolve finds out what became of the transaction after an unclear commit, until ctx ends.
	Resolve(ctx context.Context) Outcome
	// End is called once, after the transaction has ended, with what became of it. It must not block for long.
	End(outcome Outcome)
}

// TransactConfig is what a backend gives the engine; the zero value works.
type TransactConfig struct {
	// Abilities of the backend; asking for more is an [*UnsupportedError]. Order is not checked: a key is harmless
	// where it does not order.
	Abilities Abilities
	// Check is called for every message after [Message.Validate], with its ID set: the broker's own rules. Defaults to none.
	Check func(Message) error
	// Runs is the most runs of one callback. Defaults to 5.
	Runs int
	// CommitTimeout bounds COMMIT, which the caller's context does not. Defaults to 10 s.
	CommitTimeout time.Duration
	// ResolveTimeout bounds the search for the outcome after an unclear commit. Defaults to 10 s.
	ResolveTimeout time.Duration
}

func (c TransactConfig) withDefaults() TransactConfig {
	if c.Runs == 0 {
		c.Runs = 5
	}
	if c.CommitTimeout == 0 {
		c.CommitTimeout = 10 * time.Second
	}
	if c.ResolveTimeout == 0 {
		c.ResolveTimeout = 10 * time.Second
	}
	return c
}

// rollbackTimeout bounds ROLLBACK; a connection that cannot do it in time is closed by the driver, which rolls back too.
const rollbackTimeout = 5 * time.Second

type nestedKey struct{}

// Transact is the engine behind every backend's Transact: it begins, runs fn, commits with what the attempt writes along,
// resolves an unclear commit and runs fn again after a lost race. start makes the backend's attempt for each run.
func Transact[Tx any](
	ctx context.Context, db Database[Tx], cfg TransactConfig, start func(Transaction[Tx]) Attempt,
	fn func(ctx context.Context, tx Tx, out Publisher) error,
) error {
	if fn == nil {
		return errors.New("txmsg: Transact: fn must not be nil")
	}
	if ctx.Value(nestedKey{}) != nil {
		return fmt.Errorf("txmsg: %w", ErrNested)
	}
	ctx = context.WithValue(ctx, nestedKey{}, true)
	call := &call[Tx]{db: db, cfg: cfg.withDefaults(), start: start, fn: fn}
	for run := 1; ; run++ {
		err := call.run(ctx)
		if err == nil || errors.Is(err, ErrOutcomeUnknown) || run == call.cfg.Runs {
			return err
		}
		if !errors.Is(err, ErrLostRace) && !db.Conflict(err) {
			return err
		}
		if !pause(ctx, run) {
			return err
		}
	}
}

// call is one call of Transact over all its runs.
type call[Tx any] struct {
	db    Database[Tx]
	cfg   TransactConfig
	start func(Transaction[Tx]) Attempt
	fn    func(ctx context.Context, tx Tx, out Publisher) error
	ids   []string // given by the library, in order of use; each run uses them again
}

func (c *call[Tx]) run(ctx context.Context) (err error) {
	pub := &publisher{check: c.check, ids: &c.ids}
	tx, err := c.db.Begin(ctx, pub.savepoint)
	if err != nil {
		return err
	}
	pub.attempt = c.start(tx)
	outcome := RolledBack
	committing := false
	defer func() {
		pub.close()
		if !committing { // fn failed, panicked or ended its goroutine, or Prepare failed
			if failed := rollback(ctx, tx); failed != nil {
				err = errors.Join(err, failed)
			}
		}
		pub.attempt.End(outcome)
	}()

	if err := c.fn(ctx, tx.Tx(), pub); err != nil {
		return err
	}
	pub.close()
	along, err := pub.attempt.Prepare(ctx)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("txmsg: before commit: %w", errors.Join(err, cause(ctx, err)))
	}
	// Unknown until the database has answered: a driver may panic after it has sent COMMIT.
	committing, outcome = true, Unknown
	outcome, err = c.commit(ctx, tx, pub, along)
	return err
}

func (c *call[Tx]) commit(ctx context.Context, tx Transaction[Tx], pub *publisher, along []Statement) (Outcome, error) {
	commitCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.CommitTimeout)
	defer cancel()
	err := tx.Commit(commitCtx, along...)
	switch {
	case err == nil:
		return Committed, nil
	case !errors.Is(err, ErrOutcomeUnknown):
		return RolledBack, err
	}
	resolveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.ResolveTimeout)
	defer cancel()
	switch pub.attempt.Resolve(resolveCtx) {
	case Committed:
		return Committed, nil
	case RolledBack:
		// Not wrapped: an error that says "unknown" would contradict the verdict.
		return RolledBack, fmt.Errorf("txmsg: %w: %v", ErrRolledBack, err)
	default:
		return Unknown, &OutcomeUnknownError{MessageIDs: pub.taken, Err: err}
	}
}

func (c *call[Tx]) check(m Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if m.Delay > 0 && !c.cfg.Abilities.Delay {
		return &UnsupportedError{Ability: "Delay", Reason: "Message.Delay must be 0"}
	}
	if c.cfg.Check != nil {
		return c.cfg.Check(m)
	}
	return nil
}

func rollback[Tx any](ctx context.Context, tx Transaction[Tx]) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	return tx.Rollback(ctx)
}

// publisher is the Publisher that the callback of one run gets.
type publisher struct {
	attempt Attempt
	check   func(Message) error

	mu     sync.Mutex // a callback's goroutines may publish side by side
	ids    *[]string
	used   int      // of ids
	taken  []string // IDs of the messages of the transaction
	closed bool
}

// close refuses what comes from now on, and waits for a call that is under way: what it took belongs to the transaction.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func (p *publisher) Publish(ctx context.Context, msgs ...Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("txmsg: %w", ErrPublisherClosed)
	}
	taken := make([]Message, len(msgs))
	used := p.used
	for i, m := range msgs {
		m = m.Clone()
		if m.ID == "" {
			m.ID = p.id(&used)
		}
		InjectTrace(ctx, &m)
		if err := p.check(m); err != nil {
			return err
		}
		taken[i] = m
	}
	if err := p.attempt.Publish(ctx, taken); err != nil {
		return err
	}
	p.used = used
	for _, m := range taken {
		p.taken = append(p.taken, m.ID)
	}
	return nil
}

func (p *publisher) savepoint() (rollback func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	undo, mark := p.attempt.Savepoint(), len(p.taken)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		undo()
		p.taken = p.taken[:min(mark, len(p.taken))] // an outer rollback may have come first
	}
}

func (p *publisher) id(used *int) string {
	if *used == len(*p.ids) {
		*p.ids = append(*p.ids, NewID())
	}
	id := (*p.ids)[*used]
	*used++
	return id
}

// cause is the reason that ctx ended with when it says more than err does, else nil.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); !errors.Is(why, err) {
		return why
	}
	return nil
}

// pause waits a jittered, rising time before run+1 and reports whether ctx still stands.
func pause(ctx context.Context, run int) bool {
	most := time.Millisecond << run
	timer := time.NewTimer(most/2 + rand.N(most/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Collector is the part of an [Attempt] that keeps the messages in memory until the commit: backends that write them
// along with it embed one.
type Collector struct{ msgs []Message }

// Publish keeps msgs.
func (c *Collector) Publish(_ context.Context, msgs []Message) error {
	c.msgs = append(c.msgs, msgs...)
	return nil
}

// Savepoint implements [Attempt].
func (c *Collector) Savepoint() (rollback func()) {
	mark := len(c.msgs)
	return func() { c.msgs = slices.Delete(c.msgs, min(mark, len(c.msgs)), len(c.msgs)) }
}

// Messages returns what was kept, in the order in which it was published.
func (c *Collector) Messages() []Message { return c.msgs }

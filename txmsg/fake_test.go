package txmsg

import (
	"context"
	"errors"
	"slices"
)

var (
	errConflict = errors.New("serialization failure")
	errReply    = errors.New("reply lost")
)

// fakeDB is a Database whose transactions do what its faults say, one entry a run; past the end, nothing goes wrong.
type fakeDB struct {
	begin    []error
	commit   []func(ctx context.Context) error
	outcome  Outcome
	rollback error
	runs     []*fakeTx
}

// fakeTx is its own handle.
type fakeTx struct {
	db         *fakeDB
	savepoint  func() func()
	along      []Statement
	committed  bool
	rolledBack int
	ctxErr     error // of the context that ended the transaction
}

func (d *fakeDB) Begin(_ context.Context, savepoint func() func()) (Transaction[*fakeTx], error) {
	if n := len(d.runs); n < len(d.begin) && d.begin[n] != nil {
		d.runs = append(d.runs, nil)
		return nil, d.begin[n]
	}
	tx := &fakeTx{db: d, savepoint: savepoint}
	d.runs = append(d.runs, tx)
	return tx, nil
}

func (d *fakeDB) Exec(context.Context, *fakeTx, ...Statement) error { return nil }

func (d *fakeDB) Conflict(err error) bool { return errors.Is(err, errConflict) }

func (d *fakeDB) last() *fakeTx { return d.runs[len(d.runs)-1] }

func (t *fakeTx) Tx() *fakeTx { return t }

func (t *fakeTx) Commit(ctx context.Context, along ...Statement) error {
	t.ctxErr = ctx.Err()
	if n := slices.Index(t.db.runs, t); n < len(t.db.commit) && t.db.commit[n] != nil {
		return t.db.commit[n](ctx)
	}
	t.along, t.committed = along, true
	return nil
}

func (t *fakeTx) Rollback(ctx context.Context) error {
	t.ctxErr = ctx.Err()
	t.rolledBack++
	return t.db.rollback
}

func (t *fakeTx) Outcome(ctx context.Context) (Outcome, error) { return t.db.outcome, ctx.Err() }

// fakeAttempt collects, and remembers how it ended.
type fakeAttempt struct {
	Collector
	tx       Transaction[*fakeTx]
	publish  error
	prepare  func() error
	prepared int
	ended    []Outcome
}

func (a *fakeAttempt) Publish(ctx context.Context, msgs []Message) error {
	if a.publish != nil {
		return a.publish
	}
	return a.Collector.Publish(ctx, msgs)
}

func (a *fakeAttempt) Prepare(context.Context) ([]Statement, error) {
	a.prepared++
	if a.prepare != nil {
		if err := a.prepare(); err != nil {
			return nil, err
		}
	}
	stmts := make([]Statement, 0, len(a.Messages()))
	for _, m := range a.Messages() {
		stmts = append(stmts, Statement{SQL: m.ID})
	}
	return stmts, nil
}

func (a *fakeAttempt) Resolve(ctx context.Context) Outcome {
	outcome, _ := a.tx.Outcome(ctx)
	return outcome
}

func (a *fakeAttempt) End(outcome Outcome) { a.ended = append(a.ended, outcome) }

// bench runs the engine on fakes.
type bench struct {
	db       fakeDB
	cfg      TransactConfig
	attempts []*fakeAttempt
	each     func(*fakeAttempt) // shapes the attempt of every run
}

func (b *bench) transact(ctx context.Context, fn func(ctx context.Context, tx *fakeTx, out Publisher) error) error {
	return Transact(ctx, &b.db, b.cfg, func(tx Transaction[*fakeTx]) Attempt {
		a := &fakeAttempt{tx: tx}
		if b.each != nil {
			b.each(a)
		}
		b.attempts = append(b.attempts, a)
		return a
	}, fn)
}

// ends lists how the runs' attempts ended; every attempt must end once.
func (b *bench) ends() (all []Outcome) {
	for _, a := range b.attempts {
		all = append(all, a.ended...)
	}
	return all
}

// written returns the IDs that the last run's commit wrote along.
func (b *bench) written() (ids []string) {
	for _, stmt := range b.db.last().along {
		ids = append(ids, stmt.SQL)
	}
	return ids
}

// publish is a callback that publishes msgs.
func publish(msgs ...Message) func(context.Context, *fakeTx, Publisher) error {
	return func(ctx context.Context, _ *fakeTx, out Publisher) error { return out.Publish(ctx, msgs...) }
}

func message(id string) Message { return Message{ID: id, Topic: "orders"} }

// unclear is what a driver returns when the answer to COMMIT is lost.
func unclear(context.Context) error { return errors.Join(ErrOutcomeUnknown, errReply) }

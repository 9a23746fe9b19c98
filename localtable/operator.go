package localtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

const (
	// pageMost is the longest page of rows or of the audit.
	pageMost = 1000
	// stepMost is the most rows that one transaction decides about, and the most that it unparks.
	stepMost = 500
)

// OperatorStore is what an Operator needs of a database. Its methods may be called by many goroutines and processes at
// once, with or without relays at work. Every time is the database's clock. Package storetest tests these sentences.
type OperatorStore interface {
	// FindHeld returns at most limit rows that are neither ready nor delivered and match, with a seq greater than after, by seq
	// ascending. Unless whole, it leaves out body, headers and errors. It changes and locks nothing.
	FindHeld(ctx context.Context, filter Filter, after int64, limit int, whole bool) ([]Held, error)

	// Decide changes rows and writes an audit entry for each, in one transaction, and returns the rows that it changed. It
	// changes a row only if it still has the revision given and is dead, or for a retry dead or in retry, or for a
	// release dead and holding: else someone else has decided, or the same decision came before. The row's revision grows.
	// See [Verb] for what becomes of it; one that is retried holds its key again, if it has one and was written without a
	// delay, begins with no attempt spent, and keeps its errors. Skip and release make ready, as [Settlement.Unpark] says, what
	// waited for the row. A settlement, a sweep or a takeover of the row's lane comes either before or after it. An unknown
	// verb is an error.
	Decide(ctx context.Context, decision Decision) (changed []Ref, err error)

	// Audit returns at most limit entries that match, with a number greater than after, in the order of their numbers. Nothing
	// removes entries.
	Audit(ctx context.Context, filter AuditFilter, after int64, limit int) ([]AuditEntry, error)

	// Notify is [Store.Notify].
	Notify(ctx context.Context) error
}

// Decision is a verb about some rows.
type Decision struct {
	Verb   Verb
	Reason Reason
	Refs   []Ref
	// Unpark is the most parked rows that are made ready, as [Settlement.Unpark] says.
	Unpark int
}

// OperatorConfig is the configuration of an Operator; the zero value works.
type OperatorConfig struct {
	// Timeout bounds each question to the database. Defaults to 15 s.
	Timeout time.Duration `yaml:"timeout"`
	// Logger gets what was decided, by whom and about how many rows. Defaults to none.
	Logger *slog.Logger `yaml:"-"`
}

func (c *OperatorConfig) setDefaults() {
	c.Timeout = cmp.Or(c.Timeout, databaseTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *OperatorConfig) validate() error {
	if c.Timeout < time.Millisecond {
		return fmt.Errorf("localtable: OperatorConfig.Timeout must be at least 1ms, got %v", c.Timeout)
	}
	return nil
}

// Operator is a person's hand on messages that are not delivered. It needs the database alone: no broker, and no relay in
// this process. Relays are told of what it did, or see it by their next poll. Its methods may be called by many goroutines.
//
// What it does is decided in the database, under the same lock as a relay's settlements, and only about rows that are still
// as they were seen; each change stands in the audit with who and why, or neither does. A transaction that has begun is finished
// when ctx ends. One whose reply is lost is an error although it may have been done: the audit tells.
type Operator struct {
	store OperatorStore
	cfg   OperatorConfig
}

// NewOperator returns an Operator on store. It asks the database nothing.
func NewOperator(store OperatorStore, cfg OperatorConfig) (*Operator, error) {
	if store == nil {
		return nil, errors.New("localtable: store must not be nil")
	}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Operator{store: store, cfg: cfg}, nil
}

// Find returns at most limit rows, 1 to 1000, that match and come after the seq given, in the order of writing. The last one's
// seq leads to the next page.
func (o *Operator) Find(ctx context.Context, filter Filter, after int64, limit int) ([]Held, error) {
	if err := errors.Join(filter.validate(), validateLimit(limit)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	rows, err := o.store.FindHeld(ctx, filter, after, limit, true)
	if err != nil {
		return nil, fmt.Errorf("localtable: find held messages: %w", err)
	}
	return rows, nil
}

// Skip takes dead rows, at most 500, out of the table: they are never sent, what waited behind them goes on, and all that
// they were stays in the audit. Rows that are no longer dead or no longer have their revision are left, and a
// [*DecidedError] names them. A copy may reach consumers all the same: of a request that the broker did not answer in time.
func (o *Operator) Skip(ctx context.Context, reason Reason, refs ...Ref) error {
	return o.decideAll(ctx, VerbSkip, reason, refs)
}

// Release lets what waits behind dead rows, at most 500, go on without them. They stay dead and can be retried or skipped, then
// outside the order of their keys. Rows that are no longer dead, no longer have their revision, or hold back
// nothing are left, and a [*DecidedError] names them.
func (o *Operator) Release(ctx context.Context, reason Reason, refs ...Ref) error {
	return o.decideAll(ctx, VerbRelease, reason, refs)
}

// Audit returns at most limit entries, 1 to 1000, that match and have a number greater than after, in the order of their
// numbers. Of transactions that overlapped, one that is seen later may have a smaller number. Entries are kept without end.
func (o *Operator) Audit(ctx context.Context, filter AuditFilter, after int64, limit int) ([]AuditEntry, error) {
	if err := errors.Join(filter.validate(), validateLimit(limit)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	entries, err := o.store.Audit(ctx, filter, after, limit)
	if err != nil {
		return nil, fmt.Errorf("localtable: read audit: %w", err)
	}
	return entries, nil
}

func (o *Operator) decideAll(ctx context.Context, verb Verb, reason Reason, refs []Ref) error {
	if err := errors.Join(reason.validate(), validateRefs(refs)); err != nil {
		return err
	}
	changed, err := o.decide(ctx, Decision{Verb: verb, Reason: reason, Refs: refs, Unpark: stepMost})
	if err != nil {
		return err
	}
	o.cfg.Logger.InfoContext(ctx, "messages decided", "verb", verb, "who", reason.Who, "changed", len(changed))
	left := slices.DeleteFunc(slices.Clone(refs), func(ref Ref) bool { return slices.Contains(changed, ref) })
	if len(left) > 0 {
		return &DecidedError{Verb: verb, Refs: left}
	}
	return nil
}

// decide runs one transaction. It does not stop half-way when ctx ends: nobody would know what became of it.
func (o *Operator) decide(ctx context.Context, decision Decision) ([]Ref, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("localtable: %s: %w", decision.Verb, context.Cause(ctx))
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.cfg.Timeout)
	defer cancel()
	changed, err := o.store.Decide(work, decision)
	if err != nil {
		return nil, fmt.Errorf("localtable: %s: %w", decision.Verb, err)
	}
	if len(changed) > 0 {
		if err := o.store.Notify(work); err != nil && !errors.Is(err, txmsg.ErrUnsupported) {
			o.cfg.Logger.DebugContext(ctx, "relays not told, they see it by polling", "error", err)
		}
	}
	return changed, nil
}

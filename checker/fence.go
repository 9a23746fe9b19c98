package checker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Fence answers checks from a store. Its methods may be called by many goroutines.
type Fence[Tx any] struct {
	store   Store[Tx]
	cfg     Config
	metrics metrics

	mu      sync.Mutex
	owner   string    // of the store, once it is known
	failed  time.Time // when the database failed last
	running int       // calls of the store, those that were given up included
	foreign time.Time // when a foreign half was warned about last
}

// New returns a Fence over store. It does not ask the database.
func New[Tx any](store Store[Tx], cfg Config) (*Fence[Tx], error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics()
	if err != nil {
		return nil, fmt.Errorf("checker: metrics: %w", err)
	}
	return &Fence[Tx]{store: store, cfg: cfg, metrics: metrics}, nil
}

// Identity returns the owner of the halves that this database records; it asks the database until that has answered once.
func (f *Fence[Tx]) Identity(ctx context.Context) (string, error) {
	f.mu.Lock()
	owner := f.owner
	f.mu.Unlock()
	if owner != "" {
		return owner, nil
	}
	owner, err := f.store.Identity(ctx)
	if err != nil {
		return "", fmt.Errorf("checker: identity: %w", err)
	}
	f.mu.Lock()
	f.owner = owner
	f.mu.Unlock()
	return owner, nil
}

// Check answers a broker's question about a half. It returns in bounded time, also when the store hangs or panics.
func (f *Fence[Tx]) Check(ctx context.Context, half Half) Verdict {
	start := time.Now()
	verdict := f.check(ctx, half)
	f.metrics.checked(verdict, time.Since(start))
	f.log(half, verdict)
	return verdict
}

// grace is what a store gets to notice that its context has ended.
const grace = 500 * time.Millisecond

func (f *Fence[Tx]) check(ctx context.Context, half Half) Verdict {
	created, ok := createdAt(half.ID)
	if !ok {
		return Verdict{Reason: ReasonMalformed}
	}
	if f.shortCircuited() {
		return Verdict{Reason: ReasonShortCircuit}
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	answer := make(chan Verdict, 1)
	f.addRunning(1)
	go func() { // a store that ignores its context must not end the only goroutine that asks checks
		defer f.addRunning(-1)
		answer <- f.ask(ctx, half, created)
	}()
	timer := time.NewTimer(f.cfg.Timeout + grace)
	defer timer.Stop()
	var verdict Verdict
	select {
	case verdict = <-answer:
	case <-timer.C:
		verdict = Verdict{Reason: ReasonTimeout, Err: context.DeadlineExceeded}
	}
	if verdict.Reason == ReasonUnavailable || verdict.Reason == ReasonTimeout {
		f.mu.Lock()
		f.failed = time.Now()
		f.mu.Unlock()
	}
	return verdict
}

// ask recovers: a panic says nothing about the transaction.
func (f *Fence[Tx]) ask(ctx context.Context, half Half, created time.Time) (verdict Verdict) {
	defer func() {
		if p := recover(); p != nil {
			verdict = Verdict{Reason: ReasonPanic, Err: fmt.Errorf("checker: panic: %v\n%s", p, debug.Stack())}
		}
	}()
	owner, err := f.Identity(ctx)
	if err != nil {
		return failed(err)
	}
	if half.Owner != owner {
		return Verdict{Reason: ReasonForeign}
	}
	if time.Since(created) > f.cfg.Retention/7*6 {
		return f.askOwn(ctx, half)
	}
	outcome, err := f.store.Fence(ctx, half.ID, f.cfg.Wait)
	switch {
	case err != nil:
		return failed(err)
	case outcome == txmsg.Committed:
		return Verdict{Outcome: txmsg.Committed, Reason: ReasonRecord}
	case outcome == txmsg.RolledBack:
		return Verdict{Outcome: txmsg.RolledBack, Reason: ReasonTombstone}
	default:
		return Verdict{Reason: ReasonOpen}
	}
}

func (f *Fence[Tx]) askOwn(ctx context.Context, half Half) Verdict {
	if f.cfg.Own == nil {
		return Verdict{Reason: ReasonExpired}
	}
	outcome, err := f.cfg.Own.Check(ctx, half.Message)
	if err == nil && outcome == txmsg.Committed {
		return Verdict{Outcome: txmsg.Committed, Reason: ReasonOwn}
	}
	return Verdict{Reason: ReasonExpired, Err: err}
}

func failed(err error) Verdict {
	if errors.Is(err, context.DeadlineExceeded) {
		return Verdict{Reason: ReasonTimeout, Err: err}
	}
	return Verdict{Reason: ReasonUnavailable, Err: err}
}

func (f *Fence[Tx]) addRunning(n int) {
	f.mu.Lock()
	f.running += n
	f.mu.Unlock()
}

// maxRunning bounds the goroutines that a store may keep.
const maxRunning = 32

func (f *Fence[Tx]) shortCircuited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running >= maxRunning || !f.failed.IsZero() && time.Since(f.failed) < f.cfg.ShortCircuit
}

// foreignInterval is the time between two warnings about halves of another owner.
const foreignInterval = time.Minute

func (f *Fence[Tx]) log(half Half, verdict Verdict) {
	attrs := []any{
		"half_id", half.ID, "message_id", half.Message.ID, "group", f.cfg.Group,
		"verdict", verdict.Outcome.String(), "reason", string(verdict.Reason),
	}
	if verdict.Err != nil {
		attrs = append(attrs, "error", verdict.Err)
	}
	level := slog.LevelDebug
	switch verdict.Reason {
	case ReasonPanic:
		level = slog.LevelError
	case ReasonUnavailable, ReasonTimeout, ReasonExpired, ReasonMalformed:
		level = slog.LevelWarn
	case ReasonForeign:
		f.mu.Lock()
		if f.foreign.IsZero() || time.Since(f.foreign) >= foreignInterval {
			f.foreign = time.Now()
			level = slog.LevelWarn
		}
		f.mu.Unlock()
		attrs = append(attrs, "owner", half.Owner, "hint", "another service uses this group: give each database a group of its own")
	}
	f.cfg.Logger.Log(context.Background(), level, "half checked", attrs...)
}

// createdAt returns the time in a UUIDv7.
func createdAt(id string) (time.Time, bool) {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.Version() != 7 {
		return time.Time{}, false
	}
	seconds, nanos := parsed.Time().UnixTime()
	return time.Unix(seconds, nanos), true
}

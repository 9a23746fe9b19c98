package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// verdict is what one attempt came to.
type verdict int

const (
	applied   verdict = iota + 1 // committed now
	duplicate                    // committed before
	failed                       // the handler's fault: spends an attempt
	away                         // nobody's fault: spends nothing
	stopped                      // shutting down, or the subscriber took the message back
)

type result struct {
	verdict verdict
	err     error
	reason  reason // of away
}

// reason is why a delivery waits; the values are few, so they may label a metric.
type reason string

const (
	databaseAway   reason = "database"
	brokerAway     reason = "broker"
	outcomeUnknown reason = "outcome unknown"
	lostRace       reason = "lost race"
	messengerEnded reason = "messenger closed"
)

// attempt runs the message's transaction once, and tells whose fault a failure is.
func (w *work[Tx]) attempt(ctx context.Context) result {
	ctx, end := w.startSpan(ctx)
	r := w.judge(ctx, w.transact)
	end(r)
	switch r.verdict {
	case applied:
		w.run.metrics.handled.Add(ctx, 1, w.labels)
		w.run.cfg.Logger.Debug("message handled", w.facts("attempt", w.attempts+1)...)
	case duplicate:
		w.run.metrics.duplicates.Add(ctx, 1, w.labels)
		w.run.cfg.Logger.Debug("duplicate dropped", w.facts()...)
	}
	return r
}

// progress is how far a transaction came in its last run.
type progress struct {
	duplicate bool // Mark was not first
	entered   bool // the handler was called
}

func (w *work[Tx]) judge(ctx context.Context, transact func(context.Context) (progress, error)) result {
	p, err := transact(ctx)
	switch {
	case p.duplicate: // whatever became of the transaction that found it
		return result{verdict: duplicate}
	case err == nil:
		return result{verdict: applied}
	case errors.Is(err, errAbandoned), closed(w.run.cancelled), ctx.Err() != nil:
		return result{verdict: stopped, err: err}
	case isPermanent(err):
		return result{verdict: failed, err: err}
	case errors.Is(err, txmsg.ErrOutcomeUnknown):
		return result{away, err, outcomeUnknown}
	case errors.Is(err, txmsg.ErrLostRace):
		return result{away, err, lostRace}
	case errors.Is(err, txmsg.ErrOutage):
		return result{away, err, brokerAway}
	case errors.Is(err, txmsg.ErrClosed):
		return result{away, err, messengerEnded}
	case !p.entered, errors.Is(err, errStuck):
		return result{away, err, databaseAway}
	}
	// The handler's error may be the database's: it is the handler's fault only if the database answers.
	p, probe := w.probe(ctx)
	switch {
	case p.duplicate:
		return result{verdict: duplicate}
	case errors.Is(probe, errAbandoned), closed(w.run.cancelled), ctx.Err() != nil:
		return result{verdict: stopped, err: err}
	case !errors.Is(probe, errProbe):
		return result{away, err, databaseAway}
	}
	return result{verdict: failed, err: err}
}

func (w *work[Tx]) transact(ctx context.Context) (progress, error) {
	return w.marked(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		return w.handle(ctx, tx, out)
	})
}

// probe asks whether the database answers, by a Mark that it rolls back; the answer yes is errProbe.
func (w *work[Tx]) probe(ctx context.Context) (progress, error) {
	return w.marked(ctx, func(context.Context, Tx, txmsg.Publisher) error { return errProbe })
}

// marked runs fn in a transaction behind the message's inbox row. A database that hangs before or after fn is given up.
func (w *work[Tx]) marked(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) (progress, error) {
	r, timeout, id := w.run, w.run.cfg.HandlerTimeout, w.delivery.Message.ID
	var p progress
	err := r.call(ctx, id, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stuck := time.AfterFunc(timeout, func() { cancel(errStuck) })
		defer stuck.Stop()
		err := r.messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
			p = progress{}
			first, err := r.store.Mark(ctx, tx, r.cfg.Name, id)
			switch {
			case err != nil:
				return fmt.Errorf("consumer: mark: %w", err)
			case !first:
				p.duplicate = true
				return nil
			case !stuck.Stop():
				return errStuck
			}
			defer stuck.Reset(timeout)
			p.entered = true
			return fn(ctx, tx, out)
		})
		if err != nil && errors.Is(context.Cause(ctx), errStuck) {
			return fmt.Errorf("%w: %w", errStuck, err)
		}
		return err
	})
	if errors.Is(err, errAbandoned) {
		return progress{}, err // the goroutine left behind may still write p
	}
	return p, err
}

// handle calls the handler under its time limit.
func (w *work[Tx]) handle(ctx context.Context, tx Tx, out txmsg.Publisher) (err error) {
	r := w.run
	w.enter()
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.HandlerTimeout, fmt.Errorf("handler ran into its timeout of %s", r.cfg.HandlerTimeout))
	defer cancel()
	overdue := time.AfterFunc(2*r.cfg.HandlerTimeout, func() {
		r.cfg.Logger.Warn("handler ignores its timeout", w.facts()...)
	})
	defer overdue.Stop()
	begin := time.Now()
	defer func() {
		r.metrics.duration.Record(context.WithoutCancel(ctx), time.Since(begin).Seconds(), w.labels)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}()
	return r.handler(ctx, tx, w.delivery.Message.Clone(), out)
}

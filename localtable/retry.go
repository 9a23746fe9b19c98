package localtable

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// listMost is the most rows that a dry run lists.
const listMost = 100

// RetryOptions are how a Retry goes; the zero value retries all that matches, at once.
type RetryOptions struct {
	// DryRun counts and lists what would be retried, and changes nothing. It goes through all that matches, and needs no reason.
	DryRun bool
	// Rate is the most messages a second that are made due. 0 means no limit.
	Rate int
	// Limit is the most rows that are looked at, the first written first. 0 means no limit.
	Limit int
}

func (o RetryOptions) validate() error {
	var problems []error
	check := func(field string, value int) {
		if value < 0 {
			problems = append(problems, &ArgumentError{Field: "RetryOptions." + field, Rule: "must be at least 0", Value: fmt.Sprint(value)})
		}
	}
	check("Rate", o.Rate)
	check("Limit", o.Limit)
	return errors.Join(problems...)
}

// RetryReport is what a Retry did.
type RetryReport struct {
	Matched int    // rows that were dead or in retry and matched, when they were looked at
	Retried int    // of these, rows that were changed
	Left    int    // of these, rows that someone else changed between the look and the change
	Rows    []Held // of a dry run: the first 100 that matched, whole
}

// Retry makes rows that are dead or in retry and match due now: they hold back their keys again, have all their attempts before
// them, and keep their history. Where States names none, it takes both. It goes from the first written on in steps of at
// most 500 rows, each in one transaction, and looks at no row twice. The report is also right when there is an
// error: ctx ended, or the database failed, and then the last step may have been done without being counted.
//
// To ask twice is to retry twice, and then some may be sent twice; with the state dead alone, the second call finds only
// what has died again.
func (o *Operator) Retry(ctx context.Context, reason Reason, filter Filter, opts RetryOptions) (RetryReport, error) {
	problems := []error{filter.validate(), opts.validate()}
	if !opts.DryRun {
		problems = append(problems, reason.validate())
	}
	for i, state := range filter.States {
		if state == StateWaiting || state == StateParked {
			problems = append(problems, &ArgumentError{Field: fmt.Sprintf("Filter.States[%d]", i), Rule: "must be retry or dead", Value: string(state)})
		}
	}
	if err := errors.Join(problems...); err != nil {
		return RetryReport{}, err
	}
	if len(filter.States) == 0 {
		filter.States = []State{StateRetry, StateDead}
	}
	r := &retrying{operator: o, reason: reason, filter: filter, opts: opts}
	err := r.run(ctx)
	if !opts.DryRun {
		o.cfg.Logger.InfoContext(ctx, "messages decided", "verb", VerbRetry, "who", reason.Who, "changed", r.report.Retried)
	}
	return r.report, err
}

// retrying is one call of Retry.
type retrying struct {
	operator *Operator
	reason   Reason
	filter   Filter
	opts     RetryOptions
	after    int64
	report   RetryReport
}

func (r *retrying) run(ctx context.Context) error {
	next := time.Now()
	for {
		limit := r.size()
		if limit == 0 {
			return nil
		}
		if !sleep(ctx, time.Until(next)) {
			return fmt.Errorf("localtable: retry: %w", context.Cause(ctx))
		}
		began := time.Now()
		found, changed, err := r.step(ctx, limit)
		if err != nil || found < limit {
			return err
		}
		if r.opts.Rate > 0 && !r.opts.DryRun {
			next = began.Add(time.Duration(changed) * time.Second / time.Duration(r.opts.Rate))
		}
	}
}

// size is how many rows the next step looks at.
func (r *retrying) size() int {
	size := stepMost
	switch {
	case r.lists():
		size = listMost
	case r.opts.Rate > 0 && !r.opts.DryRun:
		size = min(size, r.opts.Rate)
	}
	if r.opts.Limit > 0 {
		size = min(size, r.opts.Limit-r.report.Matched)
	}
	return size
}

// lists reports whether the next step lists what it finds.
func (r *retrying) lists() bool { return r.opts.DryRun && len(r.report.Rows) == 0 }

func (r *retrying) step(ctx context.Context, limit int) (found, changed int, err error) {
	rows, err := r.look(ctx, limit)
	if err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	r.after = rows[len(rows)-1].Seq
	if r.opts.DryRun {
		if r.lists() {
			r.report.Rows = rows
		}
		r.report.Matched += len(rows)
		return len(rows), 0, nil
	}
	refs := make([]Ref, len(rows))
	for i, row := range rows {
		refs[i] = row.Ref()
	}
	taken, err := r.operator.decide(ctx, Decision{Verb: VerbRetry, Reason: r.reason, Refs: refs})
	if err != nil {
		return 0, 0, err
	}
	r.report.Matched += len(rows)
	r.report.Retried += len(taken)
	r.report.Left += len(rows) - len(taken)
	return len(rows), len(taken), nil
}

func (r *retrying) look(ctx context.Context, limit int) ([]Held, error) {
	ctx, cancel := context.WithTimeout(ctx, r.operator.cfg.Timeout)
	defer cancel()
	rows, err := r.operator.store.FindHeld(ctx, r.filter, r.after, limit, r.lists())
	if err != nil {
		return nil, fmt.Errorf("localtable: retry: %w", err)
	}
	return rows, nil
}

package localtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

const (
	errorsKept   = 10  // in a row's history
	errorTextMax = 500 // bytes of each
)

// errUnanswered stands for a broker that broke its contract: too few results, a class it has not, a panic. It says
// nothing about a message, so it is an outage.
var errUnanswered = fmt.Errorf("localtable: broker gave no answer: %w", txmsg.ErrOutage)

// batch is one batch of a destination's rows from their reading until they are settled. No transaction is open meanwhile.
type batch[Tx any] struct {
	relay *relay[Tx]
	*destination
	pass    pass
	rows    []Row
	full    bool // there may be more rows that are due
	lanes   []Lane
	answers answers
	results []Result
}

// run publishes and settles. ctx ends the sending, between two calls to the broker; work bounds all.
func (b *batch[Tx]) run(ctx, work context.Context) report {
	b.answers, b.results = newAnswers(), make([]Result, 0, len(b.rows))
	q, followers := newQueue(b.rows, &selector{pass: b.pass, sent: map[string]int{}})
	for _, row := range followers {
		b.results = append(b.results, Result{Row: row, Fate: Parked})
	}
	if b.full && !b.pass.open {
		b.setAside(q)
	}
	for ctx.Err() == nil {
		rows, from := q.next(b.relay.lanes.stand(b.lanes), b.answers.silent)
		if len(rows) == 0 {
			break
		}
		for i, err := range b.publish(work, rows) {
			b.judge(rows[i], from[i], err)
		}
	}
	settlement := b.settlement()
	rep := report{lanes: b.lanes, full: b.full, changed: b.settle(work, settlement)}
	// Whatever was changed: of a repeated settlement nobody knows.
	if slices.ContainsFunc(b.results, func(r Result) bool { return r.Row.Head && settlement.Frees(r) }) {
		signal(b.relay.sweep)
	}
	if b.pass.open {
		rep.recovered = len(b.answers.answered) > 0
	}
	b.breaker.report(b.pass, b.answers)
	return rep
}

// setAside gives the places of rows whose topic rests to others: they wait as what was refused does, with what follows
// them, but spend no attempt. A topic that answers again gets them after as long as it rested, at most restMost. Rows cannot be left where they
// stand and passed over: a later row of a key must not be sent before one that is passed over, and to find out would take a
// look at each of those.
func (b *batch[Tx]) setAside(q *queue) {
	for _, row := range q.skipped {
		rested := time.Since(b.pass.resting[row.Message.Topic])
		b.results = append(b.results, Result{Row: row, Fate: Retry, Spared: true, After: jitter(min(max(rested, restLeast), restMost))})
	}
	for _, row := range q.behind {
		b.results = append(b.results, Result{Row: row, Fate: Parked})
	}
}

// publish makes one call to the broker and returns a result for each row.
func (b *batch[Tx]) publish(ctx context.Context, rows []*Row) (results []error) {
	msgs := make([]txmsg.Message, len(rows))
	for i, row := range rows {
		msgs[i] = row.Message
	}
	ctx, end := b.meter.startPublish(ctx, msgs)
	defer func() {
		if caught := recover(); caught != nil {
			b.relay.log.Error("broker panics", "destination", b.Destination, "panic", caught)
			results = nil
		}
		for len(results) < len(rows) {
			results = append(results, errUnanswered)
		}
		end(results)
	}()
	return b.Broker.Publish(ctx, msgs)
}

// judge decides what becomes of a row and of those behind it in its line.
func (b *batch[Tx]) judge(row *Row, l *line, err error) {
	topic := row.Message.Topic
	result := Result{Row: *row, Fate: Delivered}
	switch class := classify(err); {
	case err == nil:
	case class == "":
		b.answers.silent[topic] = true
		b.answers.err = err
		if !row.Delayed {
			l.stop()
		}
		return
	default:
		result = b.relay.refusal(*row, class, err)
	}
	b.answers.answered[topic] = true
	b.results = append(b.results, result)
	if result.Fate == Delivered || row.Delayed {
		return
	}
	behind := l.stop()
	if result.Fate == Dead && b.relay.cfg.DeadKey == Release {
		return // they are ready and go with the next batch
	}
	for _, later := range behind {
		b.results = append(b.results, Result{Row: later, Fate: Parked})
	}
}

// classify names the class of a broker's error as the table keeps it; "" is an outage, as is what has no class.
func classify(err error) Class {
	switch {
	case errors.Is(err, txmsg.ErrOutage):
		return ""
	case errors.Is(err, txmsg.ErrTooLarge):
		return ClassTooLarge
	case errors.Is(err, txmsg.ErrNoRoute):
		return ClassNoRoute
	case errors.Is(err, txmsg.ErrRefused):
		return ClassRefused
	default:
		return ""
	}
}

// refusal is the result of a message that the broker did not store.
func (r *relay[Tx]) refusal(row Row, class Class, err error) Result {
	attempt := row.Attempts + 1
	result := Result{Row: row, Fate: Retry, After: r.cfg.Schedule.after(row.Attempts), Class: class, Error: errorText(err)}
	switch {
	case class == ClassNoRoute && r.cfg.NoRoute == Wait:
		result.Spared, result.After = true, r.cfg.Schedule.sparing(r.clock.now().Sub(row.Created))
		r.log.Debug("message has no route", "message_id", row.Message.ID, "topic", row.Message.Topic, "error", err)
	case class != ClassRefused, attempt >= r.cfg.MaxAttempts:
		result.Fate, result.After = Dead, 0
		r.log.Warn("message is dead", "message_id", row.Message.ID, "topic", row.Message.Topic, "attempt", attempt, "class", class, "error", err)
	default:
		r.log.Debug("message is refused", "message_id", row.Message.ID, "topic", row.Message.Topic, "attempt", attempt, "class", class, "error", err)
	}
	return result
}

// errorText is what every database can keep.
func errorText(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?")
	if len(text) > errorTextMax {
		text = strings.ToValidUTF8(text[:errorTextMax], "")
	}
	return text
}

func (b *batch[Tx]) settlement() Settlement {
	cfg := &b.relay.cfg
	return Settlement{
		Owner: b.relay.owner, Lanes: b.lanes, Results: b.results, Archive: *cfg.Retention > 0,
		DeadHolds: cfg.DeadKey == Hold, Unpark: cfg.BatchSize, Errors: errorsKept,
	}
}

// settle writes the results, again and again while the database fails and a lane still stands: it counts once. Given up, the
// rows are sent again by whoever has the lanes then.
func (b *batch[Tx]) settle(work context.Context, settlement Settlement) (changed int) {
	if len(b.results) == 0 {
		return 0
	}
	r := b.relay
	trouble := newTrouble(r.log)
	for first := true; ; first = false {
		ctx, cancel := context.WithTimeout(work, databaseTimeout)
		changed, err := r.store.Settle(ctx, settlement)
		cancel()
		if err == nil {
			trouble.worked()
			b.count(changed, first)
			return changed
		}
		if !sleep(work, trouble.failed("settle", err)) || !anyTrue(r.lanes.stand(b.lanes)) {
			r.log.Warn("batch not settled, its messages are sent again", "destination", b.Destination, "rows", len(b.results), "error", err)
			return 0
		}
	}
}

// count tells the metrics what was settled. Where not every result changed its row, those of lanes that were lost are another
// relay's to count; a first try that changed none lost them all, and a later one may find what an earlier one did.
func (b *batch[Tx]) count(changed int, first bool) {
	results := b.results
	if changed < len(results) {
		standing := b.relay.lanes.stand(b.lanes)
		results = slices.DeleteFunc(slices.Clone(results), func(result Result) bool {
			return !standing[result.Row.Lane] || first && changed == 0
		})
	}
	if len(results) > 0 {
		b.meter.countSettled(results, b.relay.clock.now())
	}
}

func anyTrue(m map[int]bool) bool {
	for _, ok := range m {
		if ok {
			return true
		}
	}
	return false
}

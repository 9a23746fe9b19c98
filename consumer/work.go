package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/metric"

	"github.com/txmsg/txmsg-go/txmsg"
)

// waitMax bounds the time between two looks at a database or broker that is away.
const waitMax = 5 * time.Second

// work is one delivery on its way to the acknowledgement.
type work[Tx any] struct {
	run      *run[Tx]
	delivery txmsg.Delivery
	labels   metric.MeasurementOption
	class    string // of the topic

	attempts int
	errors   []string
	retry    *backoff.ExponentialBackOff
	wait     *backoff.ExponentialBackOff
	waiting  reason // guarded by run.mu; empty: it does not wait
}

func newWork[Tx any](r *run[Tx], d txmsg.Delivery) *work[Tx] {
	class := r.metrics.class(d.Message.Topic)
	return &work[Tx]{
		run: r, delivery: d, labels: r.metrics.labels(class), class: class,
		retry: newBackoff(r.cfg.BackoffMin, r.cfg.BackoffMax),
		wait:  newBackoff(r.cfg.BackoffMin, max(r.cfg.BackoffMin, min(r.cfg.BackoffMax, waitMax))),
	}
}

func newBackoff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = first, most, 2, 0.5
	b.Reset()
	return b
}

// process returns nil when the message may be acknowledged: it has taken effect, or it is buried.
func (w *work[Tx]) process(ctx context.Context) error {
	defer w.goOn()
	ctx = txmsg.ExtractTrace(ctx, w.delivery.Message)
	if err := w.readable(); err != nil {
		w.remember(err)
		return w.bury(ctx)
	}
	for {
		result := w.attempt(ctx)
		switch result.verdict {
		case applied, duplicate:
			return nil
		case stopped:
			return result.err
		case away:
			if !w.waitFor(ctx, result.reason, result.err) {
				return errStopping
			}
		case failed:
			w.goOn()
			w.attempts++
			w.remember(result.err)
			if w.attempts >= w.run.cfg.Attempts || isPermanent(result.err) {
				return w.bury(ctx)
			}
			if !w.again(ctx, result.err) {
				return errStopping
			}
		}
	}
}

// readable tells why the message cannot be handled at all, and gives it an ID that a store can keep.
func (w *work[Tx]) readable() error {
	problem := w.delivery.Malformed
	m := &w.delivery.Message
	if err := (txmsg.Message{ID: m.ID, Topic: "any"}).Validate(); err != nil || m.ID == "" {
		problem = errors.Join(problem, err)
		s := w.delivery.Source
		m.ID = fmt.Sprintf("%s/%s/%s/%d", s.Broker, s.Topic, s.Partition, s.Offset)
		if problem == nil {
			problem = errors.New("consumer: the message has no ID")
		}
	}
	return problem
}

// again pauses before the next attempt.
func (w *work[Tx]) again(ctx context.Context, err error) bool {
	next := w.retry.NextBackOff()
	w.run.metrics.retries.Add(ctx, 1, w.labels)
	w.run.cfg.Logger.Warn("attempt failed", w.facts("attempt", w.attempts, "retry_in", next, "error", err)...)
	return w.run.pause(ctx, next)
}

// waitFor pauses before the next look at what is away. It spends no attempt. An outage is logged once, however many
// deliveries meet it.
func (w *work[Tx]) waitFor(ctx context.Context, why reason, err error) bool {
	r := w.run
	r.mu.Lock()
	if w.waiting == "" {
		r.metrics.waiting.Add(ctx, 1, w.labels)
		if r.waiting++; r.waiting == 1 {
			r.cfg.Logger.Warn("consumer waits", w.facts("reason", string(why), "error", err)...)
		}
	}
	w.waiting = why
	r.mu.Unlock()
	r.metrics.waits.Add(ctx, 1, r.metrics.waitLabels(w.class, why))
	r.cfg.Logger.Debug("message waits", w.facts("reason", string(why), "error", err)...)
	return r.pause(ctx, w.wait.NextBackOff())
}

// enter ends the waiting because the database has answered. Whether a broker is back shows only when the handler and the
// commit are through.
func (w *work[Tx]) enter() {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	if w.waiting != brokerAway {
		w.goOnLocked()
	}
}

// goOn ends the waiting, if there was any.
func (w *work[Tx]) goOn() {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	w.goOnLocked()
}

func (w *work[Tx]) goOnLocked() {
	r := w.run
	if w.waiting == "" {
		return
	}
	w.waiting = ""
	r.metrics.waiting.Add(context.Background(), -1, w.labels)
	if r.waiting--; r.waiting == 0 && !closed(r.stopping) {
		r.cfg.Logger.Info("consumer goes on", "consumer", r.cfg.Name)
	}
}

func (w *work[Tx]) facts(more ...any) []any {
	return append([]any{
		"consumer", w.run.cfg.Name, "message_id", w.delivery.Message.ID, "topic", w.delivery.Message.Topic,
	}, more...)
}

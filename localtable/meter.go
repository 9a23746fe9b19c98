package localtable

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/txmsg/txmsg-go/txmsg"
)

const scope = "github.com/txmsg/txmsg-go/localtable"

// otherTopics is the label of topics that the configuration does not name: labels must not grow with what users send.
const otherTopics = "other"

// linksMax bounds the links of a span, as the tracer would.
const linksMax = 128

// meter is the metrics and traces of one destination.
type meter struct {
	*instruments
	destination metric.MeasurementOption
	topics      map[string]metric.MeasurementOption // by topic; others under otherTopics
	name        string                              // of the destination
}

// instruments are those of one messenger.
type instruments struct {
	meter  metric.Meter
	tracer trace.Tracer

	written, delivered, retried, dead, parked metric.Int64Counter
	pruned, expired                           metric.Int64Counter
	batch                                     metric.Int64Histogram
	latency                                   metric.Float64Histogram
	lanes, open, resting, rows                metric.Int64ObservableGauge
	oldest, snapshot                          metric.Float64ObservableGauge
}

func newInstruments() (*instruments, error) {
	of := otel.Meter(scope)
	m := &instruments{meter: of, tracer: otel.Tracer(scope)}
	var problems []error
	counter := func(into *metric.Int64Counter, name, text string) {
		made, err := of.Int64Counter("txmsg.localtable."+name, metric.WithDescription(text), metric.WithUnit("{message}"))
		*into, problems = made, append(problems, err)
	}
	counter(&m.written, "written", "Messages whose transaction committed, as far as this process knows.")
	counter(&m.delivered, "published", "Messages that the broker has stored.")
	counter(&m.retried, "retried", "Refusals after which the message is tried again.")
	counter(&m.dead, "dead", "Messages that were given up.")
	counter(&m.parked, "parked", "Messages put behind an earlier one of their key.")
	counter(&m.pruned, "pruned", "Delivered messages that were kept and are removed.")
	var err error
	m.expired, err = of.Int64Counter("txmsg.localtable.lanes.expired", metric.WithUnit("{lane}"), metric.WithDescription("Lanes whose owner did not renew them in time, and which this process freed."))
	problems = append(problems, err)
	gauge := func(into *metric.Int64ObservableGauge, name, text string) {
		made, err := of.Int64ObservableGauge("txmsg.localtable."+name, metric.WithDescription(text))
		*into, problems = made, append(problems, err)
	}
	gauge(&m.lanes, "lanes", "Lanes that this process holds.")
	gauge(&m.open, "breaker.open", "1 while the broker does not answer.")
	gauge(&m.resting, "breaker.resting_topics", "Topics for which the broker does not answer although it does for others.")
	gauge(&m.rows, "rows", "Rows of the table that are not delivered, by state.")
	m.oldest, err = of.Float64ObservableGauge("txmsg.localtable.oldest_unsent", metric.WithUnit("s"), metric.WithDescription("Age of the oldest message that is due and not sent."))
	problems = append(problems, err)
	m.snapshot, err = of.Float64ObservableGauge("txmsg.localtable.oldest_snapshot", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest transaction that keeps the database from clearing away what is dead in its tables."))
	problems = append(problems, err)
	m.batch, err = of.Int64Histogram("txmsg.localtable.batch", metric.WithUnit("{message}"), metric.WithDescription("Messages settled together."))
	problems = append(problems, err)
	m.latency, err = of.Float64Histogram("txmsg.localtable.latency", metric.WithUnit("s"),
		metric.WithDescription("From the writing of a message to its settlement, by the database's clock."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600))
	return m, errors.Join(append(problems, err)...)
}

// of is the meter of one destination.
func (m *instruments) of(destination string, topics []string) *meter {
	label := attribute.String("destination", destination)
	of := &meter{
		instruments: m, name: destination,
		destination: metric.WithAttributeSet(attribute.NewSet(label)),
		topics:      map[string]metric.MeasurementOption{},
	}
	for _, topic := range append([]string{otherTopics}, topics...) {
		of.topics[topic] = metric.WithAttributeSet(attribute.NewSet(label, attribute.String("topic", topic)))
	}
	return of
}

func (m *meter) topic(topic string) metric.MeasurementOption {
	if option, ok := m.topics[topic]; ok {
		return option
	}
	return m.topics[otherTopics]
}

// background: counting needs no caller's context.
var background = context.Background()

func (m *meter) countWritten(topic string) { m.written.Add(background, 1, m.topic(topic)) }

func (m *instruments) countExpired(lanes int) { m.expired.Add(background, int64(lanes)) }

func (m *instruments) countPruned(rows int) { m.pruned.Add(background, int64(rows)) }

func (m *meter) countSettled(results []Result, now time.Time) {
	m.batch.Record(background, int64(len(results)), m.destination)
	type tally struct {
		fates [Parked + 1]int64
		label []metric.RecordOption
	}
	tallies := map[string]*tally{}
	for _, result := range results {
		topic := result.Row.Message.Topic
		t := tallies[topic]
		if t == nil {
			t = &tally{label: []metric.RecordOption{m.topic(topic)}}
			tallies[topic] = t
		}
		if result.Fate != Retry || result.Class != "" { // else it was set aside
			t.fates[result.Fate]++
		}
		if result.Fate == Delivered && !result.Row.Delayed {
			m.latency.Record(background, max(now.Sub(result.Row.Created).Seconds(), 0), t.label...)
		}
	}
	for topic, t := range tallies {
		for fate, counter := range map[Fate]metric.Int64Counter{Delivered: m.delivered, Retry: m.retried, Dead: m.dead, Parked: m.parked} {
			if t.fates[fate] > 0 {
				counter.Add(background, t.fates[fate], m.topic(topic))
			}
		}
	}
}

// observe makes the gauges tell what health tells.
func (m *instruments) observe(health func() Health) (unregister func(), err error) {
	registration, err := m.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		h := health()
		to.ObserveInt64(m.lanes, int64(h.Lanes))
		for _, d := range h.Destinations {
			label := metric.WithAttributes(attribute.String("destination", d.Destination))
			to.ObserveInt64(m.open, int64(bit(!d.OutageSince.IsZero())), label)
			to.ObserveInt64(m.resting, int64(len(d.Resting)), label)
		}
		if h.Observed.IsZero() {
			return nil
		}
		to.ObserveFloat64(m.oldest, h.Status.OldestUnsent.Seconds())
		to.ObserveFloat64(m.snapshot, h.Status.OldestSnapshot.Seconds())
		for state, count := range map[string]int64{
			"ready": h.Status.Ready, "waiting": h.Status.Waiting, "retry": h.Status.Retry, "parked": h.Status.Parked, "dead": h.Status.Dead,
		} {
			to.ObserveInt64(m.rows, count, metric.WithAttributes(attribute.String("state", state)))
		}
		return nil
	}, m.lanes, m.open, m.resting, m.rows, m.oldest, m.snapshot)
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

// startPublish begins the span of one call to the broker, linked to those of the writers.
func (m *meter) startPublish(ctx context.Context, msgs []txmsg.Message) (context.Context, func(results []error)) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			attribute.String("messaging.operation.type", "send"),
			attribute.String("txmsg.destination", m.name),
			attribute.Int("messaging.batch.message_count", len(msgs)),
		),
	}
	if links := writers(msgs); len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
	}
	ctx, span := m.tracer.Start(ctx, "publish "+m.name, options...)
	return ctx, func(results []error) {
		defer span.End()
		if !span.IsRecording() {
			return
		}
		for _, err := range results {
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, "a message was not stored")
				return
			}
		}
	}
}

// writers are links to the spans that published msgs, each once.
func writers(msgs []txmsg.Message) []trace.Link {
	var links []trace.Link
	seen := map[trace.SpanID]bool{}
	for _, msg := range msgs {
		if len(links) == linksMax {
			break
		}
		writer := trace.SpanContextFromContext(txmsg.ExtractTrace(context.Background(), msg))
		if writer.IsValid() && !seen[writer.SpanID()] {
			seen[writer.SpanID()] = true
			links = append(links, trace.Link{SpanContext: writer})
		}
	}
	return links
}

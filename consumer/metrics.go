package consumer

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const scope = "github.com/txmsg/txmsg-go/consumer"

// otherTopics is the class of topics that the configuration does not list.
const otherTopics = "other"

type metrics struct {
	handled, duplicates, retries, buried, waits, pruned metric.Int64Counter
	inFlight, waiting                                   metric.Int64UpDownCounter
	duration                                            metric.Float64Histogram

	consumer attribute.KeyValue
	name     metric.MeasurementOption
	classes  map[string]metric.MeasurementOption
}

func newMetrics(cfg Config) (metrics, error) {
	meter := otel.Meter(scope)
	m := metrics{consumer: attribute.String("consumer", cfg.Name), classes: map[string]metric.MeasurementOption{}}
	m.name = metric.WithAttributes(m.consumer)
	for _, class := range append([]string{otherTopics}, cfg.Topics...) {
		m.classes[class] = metric.WithAttributes(m.consumer, attribute.String("topic", class))
	}
	var errs []error
	for _, counter := range []struct {
		into              *metric.Int64Counter
		name, description string
	}{
		{&m.handled, "txmsg.consumer.handled", "Messages whose handler's transaction committed."},
		{&m.duplicates, "txmsg.consumer.duplicates", "Copies dropped because the message had taken effect."},
		{&m.retries, "txmsg.consumer.retries", "Attempts that failed and are followed by another."},
		{&m.buried, "txmsg.consumer.buried", "Messages written to the dead letters."},
		{&m.waits, "txmsg.consumer.waits", "Tries that spent no attempt, by reason."},
		{&m.pruned, "txmsg.inbox.pruned", "Inbox rows removed because of their age."},
	} {
		var err error
		*counter.into, err = meter.Int64Counter(counter.name, metric.WithDescription(counter.description))
		errs = append(errs, err)
	}
	for _, gauge := range []struct {
		into              *metric.Int64UpDownCounter
		name, description string
	}{
		{&m.inFlight, "txmsg.consumer.in_flight", "Deliveries under way, with those in a backoff."},
		{&m.waiting, "txmsg.consumer.waiting", "Deliveries that wait for a database or broker."},
	} {
		var err error
		*gauge.into, err = meter.Int64UpDownCounter(gauge.name, metric.WithDescription(gauge.description))
		errs = append(errs, err)
	}
	var err error
	m.duration, err = meter.Float64Histogram("txmsg.consumer.handler.duration",
		metric.WithUnit("s"), metric.WithDescription("Time of one call of the handler."))
	return m, errors.Join(append(errs, err)...)
}

// class bounds the values of the label topic.
func (m metrics) class(topic string) string {
	if _, ok := m.classes[topic]; ok {
		return topic
	}
	return otherTopics
}

func (m metrics) labels(class string) metric.MeasurementOption { return m.classes[class] }

func (m metrics) waitLabels(class string, why reason) metric.MeasurementOption {
	return metric.WithAttributes(m.consumer, attribute.String("topic", class), attribute.String("reason", string(why)))
}

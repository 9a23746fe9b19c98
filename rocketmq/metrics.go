package rocketmq

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/txmsg/txmsg-go/txmsg"
)

type metrics struct {
	halves     metric.Int64Counter
	settlement metric.Int64Counter
	prepare    metric.Float64Histogram
	openChecks metric.Int64Counter
}

func newMetrics() (*metrics, error) {
	meter := otel.Meter("github.com/txmsg/txmsg-go/rocketmq")
	halves, err1 := meter.Int64Counter("txmsg.rocketmq.halves",
		metric.WithDescription("Tries to store a half message, by result."))
	settlement, err2 := meter.Int64Counter("txmsg.rocketmq.settlements",
		metric.WithDescription("Half messages settled by this process, by outcome; unknown is left to a check."))
	prepare, err3 := meter.Float64Histogram("txmsg.rocketmq.prepare.duration", metric.WithUnit("s"),
		metric.WithDescription("Time between the end of a callback and the last of its half messages being stored."))
	openChecks, err4 := meter.Int64Counter("txmsg.rocketmq.open_checks",
		metric.WithDescription("Checks answered unknown because the transaction was open in this process."))
	return &metrics{halves, settlement, prepare, openChecks}, errors.Join(err1, err2, err3, err4)
}

func (m *metrics) stored(err error) {
	result := "stored"
	switch {
	case err == nil:
	case errors.Is(err, txmsg.ErrOutage):
		result = "outage"
	default:
		result = "refused"
	}
	m.halves.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", result)))
}

func (m *metrics) settled(outcome txmsg.Outcome) {
	m.settlement.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome.String())))
}

func (m *metrics) prepared(took time.Duration) {
	m.prepare.Record(context.Background(), took.Seconds())
}

func (m *metrics) checkedOpen() { m.openChecks.Add(context.Background(), 1) }

package checker

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	checks   metric.Int64Counter
	duration metric.Float64Histogram
	pruned   metric.Int64Counter
}

func newMetrics() (metrics, error) {
	meter := otel.Meter("github.com/txmsg/txmsg-go/checker")
	checks, err1 := meter.Int64Counter("txmsg.checks",
		metric.WithDescription("Checks answered, by verdict and reason."))
	duration, err2 := meter.Float64Histogram("txmsg.check.duration",
		metric.WithUnit("s"), metric.WithDescription("Time to answer a check, by verdict and reason."))
	pruned, err3 := meter.Int64Counter("txmsg.halves.pruned",
		metric.WithDescription("Records and tombstones removed because of their age."))
	return metrics{checks, duration, pruned}, errors.Join(err1, err2, err3)
}

func (m metrics) checked(verdict Verdict, took time.Duration) {
	attrs := metric.WithAttributes(
		attribute.String("verdict", verdict.Outcome.String()), attribute.String("reason", string(verdict.Reason)))
	m.checks.Add(context.Background(), 1, attrs)
	m.duration.Record(context.Background(), took.Seconds(), attrs)
}

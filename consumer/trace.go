package consumer

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// startSpan starts the span of one attempt; what the handler publishes continues it.
func (w *work[Tx]) startSpan(ctx context.Context) (context.Context, func(result)) {
	m, s := w.delivery.Message, w.delivery.Source
	ctx, span := otel.Tracer(scope).Start(ctx, "process "+w.class,
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", s.Broker),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.destination.name", m.Topic),
			attribute.String("messaging.destination.partition.id", s.Partition),
			attribute.String("messaging.message.id", m.ID),
			attribute.String("messaging.consumer.group.name", w.run.cfg.Name),
			attribute.Int("txmsg.attempt", w.attempts+1),
		))
	return ctx, func(r result) {
		span.SetAttributes(attribute.Bool("txmsg.duplicate", r.verdict == duplicate))
		if r.err != nil {
			span.RecordError(r.err)
			span.SetStatus(codes.Error, r.err.Error())
		}
		span.End()
	}
}

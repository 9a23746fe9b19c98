package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestMetrics(t *testing.T) {
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		b := setup()
		b.cfg.Attempts = 3
		b.cfg.Topics = []string{topic, "other-topic"}
		b.publish(t, message("ok"), message("ok"), message("fails"), message("slow"))
		b.messenger.fail = []error{txmsg.ErrLostRace}
		n := b.start(t, func(_ context.Context, tx *storetest.Tx, m txmsg.Message, _ txmsg.Publisher) error {
			switch m.ID {
			case "fails":
				return errors.New("never")
			case "slow":
				<-time.After(time.Hour)
			}
			return b.apply(tx)
		})
		settled(time.Minute)
		want := map[string]int64{
			"txmsg.consumer.handled consumer=payments topic=orders":                1,
			"txmsg.consumer.duplicates consumer=payments topic=orders":             1,
			"txmsg.consumer.retries consumer=payments topic=orders":                2,
			"txmsg.consumer.buried consumer=payments topic=orders":                 1,
			"txmsg.consumer.waits consumer=payments reason=lost race topic=orders": 1,
			"txmsg.consumer.waiting consumer=payments topic=orders":                0,
			"txmsg.consumer.in_flight consumer=payments topic=orders":              1,
			"txmsg.consumer.handler.duration consumer=payments topic=orders":       4,
			"txmsg.inbox.pruned consumer=payments":                                 0,
		}
		require.Equal(t, want, points(t, reader))
		settled(time.Hour)
		require.Zero(t, points(t, reader)["txmsg.consumer.in_flight consumer=payments topic=orders"])
		n.stop(t)

		// Topics that nobody configured are one series, however many there are.
		for i := range 500 {
			unlisted := message(fmt.Sprint(i))
			unlisted.Topic = fmt.Sprintf("made-up-%d", i)
			c := &oneDelivery{txmsg.Delivery{Message: unlisted}}
			require.NoError(t, b.runOnce(t, c))
		}
		got := points(t, reader)
		require.EqualValues(t, 500, got["txmsg.consumer.handled consumer=payments topic=other"])
		require.Less(t, len(got), 15)
	})
}

// points returns the value of each series, a histogram's count.
func points(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	values := map[string]int64{}
	for _, s := range data.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(p.Attributes)] = int64(p.Count)
				}
			}
		}
	}
	return values
}

func labels(set attribute.Set) string {
	var text strings.Builder
	for _, kv := range set.ToSlice() {
		fmt.Fprintf(&text, " %s=%s", kv.Key, kv.Value.AsString())
	}
	return text.String()
}

func TestTrace(t *testing.T) {
	tracer, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTracerProvider(tracer); otel.SetTextMapPropagator(propagator) })
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
		otel.SetTextMapPropagator(propagation.TraceContext{})
		b := setup()
		m := message("1")
		m.Headers = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		b.publish(t, m)
		calls := 0
		n := b.start(t, func(ctx context.Context, _ *storetest.Tx, _ txmsg.Message, out txmsg.Publisher) error {
			if calls++; calls == 1 {
				return errors.New("the first fails")
			}
			return out.Publish(ctx, txmsg.Message{Topic: "payments"})
		})
		settled(time.Minute)
		n.stop(t)

		got := spans.GetSpans()
		require.Len(t, got, 2, "one span for each attempt")
		for _, span := range got {
			require.Equal(t, "process orders", span.Name)
			require.Equal(t, trace.SpanKindConsumer, span.SpanKind)
			require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.SpanContext.TraceID().String())
			require.Equal(t, "b7ad6b7169203331", span.Parent.SpanID().String())
		}
		require.Equal(t, "the first fails", got[0].Status.Description)
		want := fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%s-01", got[1].SpanContext.SpanID())
		require.Equal(t, want, b.messenger.messages()[0].Headers["traceparent"], "what the handler publishes continues its span")
	})
}

package localtable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	apimetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

var (
	faultsDown = storetest.Faults{Down: true}
	faultsNone = storetest.Faults{}

	_ txmsg.Messenger[*storetest.Tx] = (*messenger)(nil)
)

func TestTransact(t *testing.T) {
	errStop := errors.New("stop")

	t.Run("what is rolled back is not written, nested or whole", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{})
			err := p.Transact(t.Context(), func(ctx context.Context, _ *storetest.Tx, out txmsg.Publisher) error {
				require.NoError(t, out.Publish(ctx, of("k", "whole")...))
				return errStop
			})
			require.ErrorIs(t, err, errStop)
			err = p.Transact(t.Context(), func(ctx context.Context, tx *storetest.Tx, out txmsg.Publisher) error {
				require.NoError(t, out.Publish(ctx, of("k", "a")...))
				require.ErrorIs(t, tx.Nested(func() error {
					require.NoError(t, out.Publish(ctx, of("k", "nested")...))
					return errStop
				}), errStop)
				return out.Publish(ctx, of("k", "b")...)
			})
			require.NoError(t, err)
			w.until(time.Minute, w.drained)
			require.Equal(t, []string{"a", "b"}, w.broker.ids())
		})
	})

	t.Run("C12 an unclear commit is resolved", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Second)
			w.memory.SetFaults(storetest.Faults{Unclear: 1, UnclearCommitted: true, OutcomeErrors: 3})
			require.NoError(t, publish(t.Context(), p.messenger, of("k", "committed")...))
			pass(time.Millisecond)
			require.Equal(t, []string{"committed"}, w.broker.ids())

			w.memory.SetFaults(storetest.Faults{Unclear: 1})
			err := publish(t.Context(), p.messenger, of("k", "not")...)
			require.ErrorIs(t, err, txmsg.ErrRolledBack)
			require.NotErrorIs(t, err, txmsg.ErrOutcomeUnknown)
			require.True(t, w.drained())
		})
	})

	t.Run("C12 an unclear commit that nobody can resolve is told so in time, and sent if it committed", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Second)
			w.memory.SetFaults(storetest.Faults{Unclear: 1, UnclearCommitted: true, OutcomeErrors: 1 << 30})
			before := time.Now()
			err := publish(t.Context(), p.messenger, of("k", "a")...)
			var unknown *txmsg.OutcomeUnknownError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, []string{"a"}, unknown.MessageIDs)
			require.Equal(t, 10*time.Second, time.Since(before))
			pass(time.Millisecond)
			require.Equal(t, []string{"a"}, w.broker.ids())

			w.memory.SetFaults(storetest.Faults{Unclear: 1, OutcomeUntold: true})
			before = time.Now()
			require.ErrorIs(t, publish(t.Context(), p.messenger, of("k", "b")...), txmsg.ErrOutcomeUnknown)
			require.Zero(t, time.Since(before), "a database without means is not asked again")
			w.memory.SetFaults(faultsNone)
		})
	})

	t.Run("a transaction without messages writes none", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, publish(t.Context(), w.writer()))
			require.True(t, w.drained())
		})
	})
}

func TestEnqueue(t *testing.T) {
	t.Run("it shares the fate of the caller's transaction, and Wake sends at once", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{PollInterval: time.Hour})
			pass(time.Second)
			for _, commit := range []bool{false, true} {
				tx, err := w.memory.Begin(t.Context(), func() func() { return func() {} })
				require.NoError(t, err)
				require.NoError(t, p.Enqueue(t.Context(), tx.Tx(), of("k", fmt.Sprint(commit), "")...))
				if commit {
					require.NoError(t, tx.Commit(t.Context()))
				} else {
					require.NoError(t, tx.Rollback(t.Context()))
				}
				p.Wake()
				pass(time.Millisecond)
			}
			require.Len(t, w.broker.ids(), 2)
			require.Equal(t, "true", w.broker.ids()[0])
			require.NotEmpty(t, w.broker.ids()[1], "it gives an ID")
		})
	})

	t.Run("it refuses what Publish refuses, and writes none of them", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			m := w.writer()
			tx, err := w.memory.Begin(t.Context(), func() func() { return func() {} })
			require.NoError(t, err)
			good, large := of("k", "good")[0], of("k", "large")[0]
			large.Body = make([]byte, 2<<20)
			require.ErrorIs(t, m.Enqueue(t.Context(), tx.Tx(), good, large), txmsg.ErrTooLarge)
			var invalid *txmsg.InvalidMessageError
			require.ErrorAs(t, m.Enqueue(t.Context(), tx.Tx(), good, txmsg.Message{Topic: "no spaces"}), &invalid)
			require.NoError(t, tx.Commit(t.Context()))
			require.True(t, w.drained())
		})
	})
}

func TestConfig(t *testing.T) {
	t.Run("every problem is named with its value", func(t *testing.T) {
		_, err := localtable.New(storetest.NewMemory(1), newBroker(), localtable.Config{
			BatchSize: -3, Concurrency: 65, PollInterval: -1, LeaseTTL: time.Millisecond, MaxAttempts: -1, Schedule: "slow",
			DeadKey: "drop", NoRoute: "lose", Retention: new(-time.Second), DrainTimeout: -1, Topics: []string{"a b"},
		})
		for _, text := range []string{
			"localtable: Config.BatchSize must be between 1 and 10000, got -3", "Config.Concurrency must be between 1 and 64, got 65",
			"Config.PollInterval", "Config.LeaseTTL must be at least 1s, got 1ms", "Config.MaxAttempts", "Config.Schedule must be fast or patient, got slow",
			"Config.DeadKey must be hold or release, got drop", "Config.NoRoute must be wait or dead, got lose", "Config.Retention", "Config.DrainTimeout", "Config.Topics[0]",
		} {
			require.ErrorContains(t, err, text)
		}
	})

	t.Run("neither store nor broker may be missing", func(t *testing.T) {
		_, err := localtable.New[*storetest.Tx](nil, nil, localtable.Config{BatchSize: -3})
		for _, text := range []string{"localtable: store must not be nil", "localtable: broker must not be nil", "Config.BatchSize"} {
			require.ErrorContains(t, err, text)
		}
	})

	t.Run("the zero value works", func(t *testing.T) {
		_, err := localtable.New(storetest.NewMemory(1), newBroker(), localtable.Config{})
		require.NoError(t, err)
	})
}

// settings are sections by name.
type settings map[string]func(into any) error

func (s settings) Backend() string { return "" }

func (s settings) Unknown(...string) []string { return nil }

func (s settings) Section(name string, into any) error {
	if fill := s[name]; fill != nil {
		return fill(into)
	}
	return nil
}

type brokerConfig struct{ Address string }

func TestOn(t *testing.T) {
	var opened *brokerConfig
	backends := txmsg.Backends[*storetest.Tx]{
		"localtable/fake": localtable.On(storetest.NewMemory(1), func(_ context.Context, cfg brokerConfig) (*broker, error) {
			opened = &cfg
			return newBroker(), nil
		}),
	}
	open := func(ctx context.Context, name string, settings txmsg.Settings) (txmsg.Messenger[*storetest.Tx], error) {
		open, err := backends["localtable/fake"](name, settings)
		if err != nil {
			return nil, err
		}
		return open(ctx)
	}

	t.Run("both sections are read", func(t *testing.T) {
		m, err := open(t.Context(), "localtable/fake", settings{
			"localtable": func(into any) error { into.(*localtable.Config).BatchSize = 7; return nil },
			"fake":       func(into any) error { into.(*brokerConfig).Address = "there"; return nil },
		})
		require.NoError(t, err)
		require.Equal(t, &brokerConfig{"there"}, opened)
		require.Equal(t, txmsg.Abilities{Order: true, Delay: true}, m.Abilities())
	})

	t.Run("C60 a bad section is an error before anything is opened", func(t *testing.T) {
		opened = nil
		_, err := open(t.Context(), "localtable/fake", settings{
			"localtable": func(into any) error { into.(*localtable.Config).BatchSize = -1; return nil },
		})
		require.ErrorContains(t, err, "Config.BatchSize")
		_, err = open(t.Context(), "localtable/fake", settings{"fake": func(any) error { return errors.New("unknown field") }})
		require.ErrorContains(t, err, "unknown field")
		for _, name := range []string{"localtable", "localtable/", "/fake", "a/b/c", ""} {
			_, err = open(t.Context(), name, settings{})
			require.ErrorContains(t, err, "localtable/<broker>")
		}
		require.Nil(t, opened)
	})

	t.Run("what was opened is closed when the rest fails", func(t *testing.T) {
		otel.SetMeterProvider(brokenMeters{})
		defer otel.SetMeterProvider(noop.NewMeterProvider())
		b := newBroker()
		open := localtable.On(storetest.NewMemory(1), func(context.Context, brokerConfig) (*broker, error) { return b, nil })
		start, err := open("localtable/fake", settings{})
		require.NoError(t, err)
		m, err := start(t.Context())
		require.ErrorContains(t, err, "no counters")
		require.True(t, m == nil, "an interface that holds a nil pointer is not nil")
		require.True(t, b.closed)
	})
}

// brokenMeters make no counters.
type (
	brokenMeters struct{ noop.MeterProvider }
	brokenMeter  struct{ noop.Meter }
)

func (brokenMeters) Meter(string, ...apimetric.MeterOption) apimetric.Meter { return brokenMeter{} }

func (brokenMeter) Int64Counter(string, ...apimetric.Int64CounterOption) (apimetric.Int64Counter, error) {
	return nil, errors.New("no counters")
}

func TestInstruments(t *testing.T) {
	reader := metric.NewManualReader()
	spans := tracetest.NewInMemoryExporter()
	tracer := trace.NewTracerProvider(trace.WithSyncer(spans))
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	otel.SetTracerProvider(tracer)
	otel.SetTextMapPropagator(propagation.TraceContext{})

	var got map[string]float64
	var wrote oteltrace.SpanID
	inWorld(t, func(t *testing.T, w *world) {
		w.broker.set(faults{refuse: map[string]int{"again": 1, "dead": -1}})
		p := w.start(localtable.Config{Topics: []string{"orders"}, MaxAttempts: 2})
		pass(time.Second)
		ctx, writer := tracer.Tracer("test").Start(t.Context(), "write")
		require.NoError(t, publish(ctx, p.messenger, append(append(of("k1", "again", "behind"), of("k2", "dead")...), to("made-up", "x")...)...))
		wrote = writer.SpanContext().SpanID()
		writer.End()
		pass(30 * time.Second)
		got = metrics(t, reader)
	})

	t.Run("counters and gauges tell what happened", func(t *testing.T) {
		for name, want := range map[string]float64{
			"written orders": 3, "written other": 1, "published orders": 2, "published other": 1, "retried orders": 2,
			"dead orders": 1, "parked orders": 1, "lanes": 64, "breaker.open": 0, "rows dead": 1, "rows ready": 0, "latency orders": 2,
		} {
			require.Contains(t, got, name)
			require.InDelta(t, want, got[name], 0, name)
		}
		require.Contains(t, got, "oldest_unsent")
		require.Contains(t, got, "oldest_snapshot")
		require.NotZero(t, got["batch"])
		require.NotContains(t, metrics(t, reader), "lanes", "a relay that ended tells nothing")
	})

	t.Run("C59 a topic that is not configured is no label", func(t *testing.T) {
		for name := range got {
			require.NotContains(t, name, "made-up")
		}
	})

	t.Run("C22 what a paused relay lost is not counted", func(t *testing.T) {
		before := metrics(t, reader)
		inWorld(t, func(t *testing.T, w *world) {
			w.broker.set(faults{refuse: map[string]int{"A": 1}, latency: time.Second})
			p := w.start(localtable.Config{Topics: []string{"orders"}, LeaseTTL: 5 * time.Second})
			w.write(of("k", "A", "B")...)
			w.until(time.Minute, func() bool { return len(w.broker.seenCalls()) == 1 })
			p.gate.close()
			w.start(localtable.Config{Topics: []string{"orders"}, LeaseTTL: 5 * time.Second})
			w.until(10*time.Second, w.drained)
			p.gate.open()
			pass(time.Minute)
		})
		after := metrics(t, reader)
		require.InDelta(t, before["published orders"]+2, after["published orders"], 0)
		require.InDelta(t, before["retried orders"], after["retried orders"], 0)
	})

	t.Run("C21 lanes that were taken over from a dead relay are counted", func(t *testing.T) {
		before := metrics(t, reader)
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{})
			pass(time.Second)
			p.gate.close()
			w.start(localtable.Config{})
			pass(time.Minute)
		})
		require.InDelta(t, before["lanes.expired"]+localtable.Lanes, metrics(t, reader)["lanes.expired"], 0)
	})

	t.Run("a publish span is linked to the writer's", func(t *testing.T) {
		linked := 0
		for _, span := range spans.GetSpans() {
			for _, link := range span.Links {
				require.Equal(t, "publish default", span.Name)
				if link.SpanContext.SpanID() == wrote {
					linked++
				}
			}
		}
		require.NotZero(t, linked)
	})
}

// metrics are the values by name and topic or state; of a histogram, the count.
func metrics(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.TrimPrefix(m.Name, "txmsg.localtable.")
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					values[labelled(name, point.Attributes)] = float64(point.Value)
				}
			case metricdata.Gauge[int64]:
				for _, point := range data.DataPoints {
					values[labelled(name, point.Attributes)] = float64(point.Value)
				}
			case metricdata.Gauge[float64]:
				for _, point := range data.DataPoints {
					values[labelled(name, point.Attributes)] = point.Value
				}
			case metricdata.Histogram[int64]:
				for _, point := range data.DataPoints {
					values[labelled(name, point.Attributes)] = float64(point.Count)
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					values[labelled(name, point.Attributes)] = float64(point.Count)
				}
			}
		}
	}
	return values
}

func labelled(name string, labels attribute.Set) string {
	for _, key := range []attribute.Key{"topic", "state"} {
		if value, ok := labels.Value(key); ok {
			name += " " + value.AsString()
		}
	}
	return name
}

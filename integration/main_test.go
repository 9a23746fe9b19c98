package integration

import (
	"flag"
	"os"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
)

// metrics reads what all messengers and consumers of this binary count.
var metrics = metric.NewManualReader()

// Tests here mostly wait for servers, so more of them run side by side than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(metrics)))
	os.Exit(m.Run())
}

// beside returns what runs a case as a subtest beside the others, with a bundle of its own.
func beside[B any](t *testing.T, setup func(t *testing.T) B) func(name string, fn func(t *testing.T, bundle B)) {
	return func(name string, fn func(t *testing.T, bundle B)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, setup(t))
		})
	}
}

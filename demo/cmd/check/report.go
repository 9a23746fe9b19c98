package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txmsg/txmsg-go/demo"
	"github.com/txmsg/txmsg-go/demo/order"
	"github.com/txmsg/txmsg-go/txmsg"
)

// report prints the one table.
func report(to io.Writer, backend string, tables demo.Tables, found []txmsg.Message, duplicates int64, l *latency) {
	states := map[order.State]int{}
	for _, o := range tables.Orders {
		states[o.State]++
	}
	quantiles := l.quantiles(0.5, 0.99)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, line := range []struct {
		name  string
		value any
	}{
		{"backend", backend},
		{"orders", len(tables.Orders)},
		{"  paid", states[order.Paid]},
		{"  failed", states[order.Failed]},
		{"  cancelled", states[order.Cancelled]},
		{"  pending", states[order.Pending]},
		{"messages written", tables.Written},
		{"messages published", len(found)},
		{"messages consumed", tables.Consumed},
		{"dropped as duplicates", duplicates},
		{"commit to consumed, p50", quantiles[0].Round(10 * time.Microsecond)},
		{"commit to consumed, p99", quantiles[1].Round(10 * time.Microsecond)},
	} {
		_, _ = fmt.Fprintf(w, "%s\t%v\n", line.name, line.value)
	}
	_ = w.Flush() // standard output
}

// sum adds a counter up over all its attributes.
func sum(ctx context.Context, reader *metric.ManualReader, name string) (total int64, err error) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		return 0, err
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				for _, point := range data.DataPoints {
					total += point.Value
				}
			}
		}
	}
	return total, nil
}

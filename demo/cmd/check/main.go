// Command check starts the demo, places orders over HTTP from several clients, waits until everything is quiet, and compares
// what the clients were told, what an independent reader finds in the broker, and what both services' databases hold. It
// ends with an error if an order is in a state that its payment does not explain, or if a message was lost or invented.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/txmsg/txmsg-go/config"
	"github.com/txmsg/txmsg-go/demo"
)

type options struct {
	config, backend, sabotage string
	orders, clients           int
	patience                  time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.config, "config", "demo/demo.yaml", "the demo's configuration file")
	flag.StringVar(&o.backend, "backend", "", "the backend, instead of the configured one")
	flag.StringVar(&o.sabotage, "sabotage", "", "spoil the relay: drop (a message is acknowledged and not sent) or invent (one is sent that nobody wrote)")
	flag.IntVar(&o.orders, "orders", 300, "how many orders to place")
	flag.IntVar(&o.clients, "clients", 8, "how many clients place them")
	flag.DurationVar(&o.patience, "patience", time.Minute, "how long to wait for quiet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := check(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "check failed:\n%v\n", err)
		os.Exit(1)
	}
	fmt.Println("check passed: nothing lost, nothing invented, every order explained by its payment")
}

func check(ctx context.Context, o options) error {
	if o.orders < 1 || o.clients < 1 {
		return fmt.Errorf("orders and clients must be at least 1, got %d and %d", o.orders, o.clients)
	}
	counted := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(counted)))
	source, cleanUp, err := settings(o)
	if err != nil {
		return err
	}
	defer cleanUp()
	latency := newLatency()
	probe := demo.Probe{Committed: latency.committed, Consumed: latency.consumed}
	if probe.Broker, err = sabotage(o.sabotage, source.Backend()); err != nil {
		return err
	}
	d, err := demo.Open(ctx, source, probe)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()

	err = measure(ctx, o, d, source, counted, latency)
	stop()
	return errors.Join(err, <-ended)
}

// settings reads the configuration as the demo does, but for a run of its own: a fresh data folder, names that no other
// run has used, any free port.
func settings(o options) (*config.Source, func(), error) {
	folder, err := os.MkdirTemp("", "txmsg-check-")
	if err != nil {
		return nil, nil, err
	}
	cleanUp := func() { _ = os.RemoveAll(folder) }
	for name, value := range map[string]string{
		"TXMSG_DATA_DIR": folder,
		"TXMSG_LISTEN":   "127.0.0.1:0",
		"TXMSG_NAME":     fmt.Sprintf("check_%x", time.Now().UnixNano()),
		"TXMSG_BACKEND":  o.backend,
	} {
		if value == "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			cleanUp()
			return nil, nil, err
		}
	}
	source, err := config.Load(o.config, "TXMSG")
	if err != nil {
		cleanUp()
		return nil, nil, err
	}
	source.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return source, cleanUp, nil
}

// measure does the work of the clients, waits, and judges.
func measure(ctx context.Context, o options, d *demo.Demo, source *config.Source, counted *metric.ManualReader, latency *latency) error {
	begun := time.Now()
	placing, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	told, err := placeAll(placing, "http://"+d.Address(), o.orders, o.clients)
	if err != nil {
		return err
	}
	placed := time.Since(begun)
	tables, quiet, err := waitForQuiet(ctx, d, o.patience)
	if err != nil {
		return err
	}
	settled := time.Since(begun)
	found, err := readTopics(ctx, d, source)
	if err != nil {
		return fmt.Errorf("independent reader: %w", err)
	}
	duplicates, err := sum(ctx, counted, "txmsg.consumer.duplicates")
	if err != nil {
		return err
	}
	problems := judge(told, tables, found)
	if !quiet {
		problems = append(problems, fmt.Errorf("not quiet after %v: %d pending orders, %d unsent messages", o.patience, pending(tables), tables.Unsent))
	}
	report(os.Stdout, source.Backend(), tables, found, duplicates, latency)
	fmt.Printf("placed in %v, quiet after %v\n", placed.Round(time.Millisecond), settled.Round(time.Millisecond))
	return errors.Join(problems...)
}

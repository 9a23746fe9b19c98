// Command demo runs the order and the payment service; its page is at /.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/txmsg/txmsg-go/config"
	"github.com/txmsg/txmsg-go/demo"
)

func main() {
	path := flag.String("config", "demo/demo.yaml", "the configuration file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) error {
	source, err := config.Load(path, "TXMSG")
	if err != nil {
		return err
	}
	source.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	d, err := demo.Open(ctx, source, demo.Probe{})
	if err != nil {
		return err
	}
	fmt.Printf("orders on http://%s, backend %s\n", d.Address(), source.Backend())
	return d.Run(ctx)
}

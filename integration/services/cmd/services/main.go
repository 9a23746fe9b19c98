// Command services starts and ends the servers that the tests of one checkout share.
//
//	services up [-install] [postgres kafka nats rocketmq]   prints lines of the form export NAME=ADDRESS
//	services down [postgres kafka nats rocketmq]            prints lines of the form unset NAME
//	services status
//
// Without names all are meant. Up leaves alone what serves already. With -install, the default when CI is set, it
// installs missing Debian packages as root. Down ends only what up has started, and deletes the data.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/txmsg/txmsg-go/integration/services"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("want up, down or status")
	}
	flags := flag.NewFlagSet("services "+arguments[0], flag.ExitOnError)
	folder := flags.String("folder", "", "where to remember what was started (default .run/services in the module's root)")
	install := flags.Bool("install", os.Getenv("CI") != "", "install missing packages with apt-get (up only)")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	if *folder == "" {
		root, err := moduleRoot()
		if err != nil {
			return err
		}
		*folder = filepath.Join(root, ".run", "services")
	}
	stand := services.Stand{Folder: *folder, Install: *install}
	switch arguments[0] {
	case "up":
		return up(ctx, stand, flags.Args())
	case "down":
		return down(ctx, stand, flags.Args())
	case "status":
		return status(ctx, stand)
	}
	return fmt.Errorf("want up, down or status, got %q", arguments[0])
}

func up(ctx context.Context, stand services.Stand, names []string) error {
	addresses, err := stand.Up(ctx, names...)
	for _, address := range addresses {
		if address.Value != "" {
			fmt.Fprintf(os.Stderr, "%s: %s\n", address.Service, address.Origin)
			fmt.Printf("export %s=%s\n", address.Variable, address.Value)
		}
	}
	return err
}

func down(ctx context.Context, stand services.Stand, names []string) error {
	addresses, err := stand.Down(ctx, names...)
	for _, address := range addresses {
		fmt.Printf("unset %s\n", address.Variable)
	}
	return err
}

func status(ctx context.Context, stand services.Stand) error {
	addresses, err := stand.Status(ctx)
	for _, address := range addresses {
		switch {
		case address.Value == "":
			fmt.Printf("%-9s down\n", address.Service)
		case address.Serves:
			fmt.Printf("%-9s up    %s (%s)\n", address.Service, address.Value, address.Origin)
		default:
			fmt.Printf("%-9s dead  %s (%s)\n", address.Service, address.Value, address.Origin)
		}
	}
	return err
}

// moduleRoot is the nearest folder above that holds a go.mod.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		above := filepath.Dir(folder)
		if above == folder {
			return "", errors.New("no go.mod in this folder or above: give -folder")
		}
		folder = above
	}
}

package services

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	natsclient "github.com/nats-io/nats.go"
)

var nats = &service{
	name:      "nats",
	variable:  "TXMSG_TEST_NATS",
	ports:     1,
	address:   natsAddress,
	ready:     natsReady,
	native:    natsNative,
	image:     natsImage,
	installed: func() error { _, err := exec.LookPath("nats-server"); return err },
	packages:  []string{"nats-server"},
}

// NATS returns the URL of a NATS server with JetStream on. Other tests use the server at the same time: choose names of
// your own for streams and subjects.
func NATS(t testing.TB) string {
	t.Helper()
	return nats.provide(t)
}

// StartNATS starts a server that is t's alone and ends with it. Settings are those of the server's configuration file.
func StartNATS(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	return nats.start(t, place{config: settings})
}

func natsAddress(p place) string { return fmt.Sprintf("nats://%s:%d", p.host, p.port()) }

func natsReady(_ context.Context, address string) error {
	connection, err := natsclient.Connect(address)
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := connection.JetStream()
	if err != nil {
		return err
	}
	_, err = stream.AccountInfo()
	return err
}

func natsConfig(p place, listen, data string) string {
	settings := map[string]string{
		"listen":    fmt.Sprintf("%q", fmt.Sprintf("%s:%d", listen, p.port())),
		"jetstream": fmt.Sprintf("{ store_dir: %q }", data),
	}
	maps.Copy(settings, p.config)
	return lines(settings, ": ")
}

// lines writes settings as a configuration file, one a line in the order of their names.
func lines(settings map[string]string, separator string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		text.WriteString(name + separator + settings[name] + "\n")
	}
	return text.String()
}

func natsNative(_ context.Context, p place) ([]daemon, error) {
	program, err := exec.LookPath("nats-server")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(p.dir, "nats.conf")
	if err := os.WriteFile(config, []byte(natsConfig(p, p.bind, filepath.Join(p.dir, "data"))), 0o644); err != nil {
		return nil, err
	}
	return []daemon{{
		name:  "nats",
		argv:  []string{program, "-c", config},
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
		ready: func(ctx context.Context) error { return natsReady(ctx, natsAddress(p)) },
	}}, nil
}

func natsImage(p place) image {
	return image{
		name:    "nats:2.10",
		command: []string{"-c", "/txmsg/nats.conf"},
		files:   map[string]string{"/txmsg/nats.conf": natsConfig(p, net.IPv4zero.String(), "/data")},
	}
}

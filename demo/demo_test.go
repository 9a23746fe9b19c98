package demo

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/config"
)

func settings(t *testing.T, yaml string) *config.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	source, err := config.Load(path, "")
	require.NoError(t, err)
	return source
}

func TestBadConfigurationStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ yaml, says string }{
		"C60 unknown backend":      {"backend: rocketmqq", `backend must be one of localtable/kafka, localtable/nats, got "rocketmqq"`},
		"C60 backend in caps":      {"backend: Kafka", `got "Kafka"`},
		"C60 no backend":           {"name: x", `got ""`},
		"C60 unknown setting":      {"backend: localtable/nats\nbakend: x", "bakend"},
		"RocketMQ without its own": {"backend: rocketmq", "backend must be one of"},
		"listen":                   {"backend: localtable/nats\nlisten: foo", "listen must be host:port"},
		"database":                 {"backend: localtable/nats\ndatabase: mysql://x", "database must be empty or a postgres:// URL"},
		"name":                     {"backend: localtable/nats\nname: A b", "name must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := row.yaml + "\ndata_dir: " + t.TempDir()
			if name != "listen" {
				yaml += "\nlisten: 127.0.0.1:0"
			}
			_, err := Open(t.Context(), settings(t, yaml), Probe{})
			require.ErrorContains(t, err, row.says)
		})
	}
}

func TestOneProcessHasADataFolder(t *testing.T) {
	t.Parallel()
	yaml := "backend: localtable/nats\nlisten: 127.0.0.1:0\ndata_dir: " + t.TempDir()
	d, err := Open(t.Context(), settings(t, yaml), Probe{})
	require.NoError(t, err)
	_, err = Open(t.Context(), settings(t, yaml), Probe{})
	require.ErrorContains(t, err, "is in use by another process")
	stop := run(t, d)
	stop()
	again, err := Open(t.Context(), settings(t, yaml), Probe{})
	require.NoError(t, err)
	run(t, again)()
}

// The broker is at an address where nobody listens.
func TestABrokerThatIsAwayDoesNotStopTheStart(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), settings(t, "backend: localtable/kafka\nkafka: {brokers: ['127.0.0.1:1']}\nlisten: 127.0.0.1:0\ndata_dir: "+t.TempDir()), Probe{})
	require.NoError(t, err)
	stop := run(t, d)
	response, err := http.Get("http://" + d.Address() + "/orders")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
	stop()
}

func run(t *testing.T, d *Demo) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "the demo does not stop")
		}
	}
}

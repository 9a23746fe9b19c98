package services

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func setupStand(t *testing.T) Stand {
	t.Setenv(nats.variable, "")
	skipShort(t, nats)
	if _, err := dockerEngine(t.Context()); err != nil {
		if err := nats.installed(); err != nil {
			nats.miss(t, fmt.Errorf("%w: %w", err, errMissing))
		}
	}
	stand := Stand{Folder: filepath.Join(t.TempDir(), "stand")}
	t.Cleanup(func() {
		_, err := stand.Down(context.Background())
		require.NoError(t, err)
	})
	return stand
}

func TestStandUpTwiceIsUpOnce(t *testing.T) {
	stand := setupStand(t)
	first, err := stand.Up(t.Context(), "nats")
	require.NoError(t, err)
	require.NoError(t, nats.serves(t.Context(), first[0].Value))
	t.Setenv(nats.variable, first[0].Value)
	second, err := stand.Up(t.Context(), "nats", "nats")
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestStandReplacesDeadServer(t *testing.T) {
	stand := setupStand(t)
	first, err := stand.Up(t.Context(), "nats")
	require.NoError(t, err)
	t.Setenv(nats.variable, first[0].Value)
	known, unlock, err := stand.open()
	require.NoError(t, err)
	unlock()
	dir := known.of["nats"].Folder
	if dir == "" {
		t.Skip("the server runs in a container")
	}
	server, err := readProcess(filepath.Join(dir, "nats.pid"))
	require.NoError(t, err)
	require.NoError(t, server.signalTree(9))
	require.NoError(t, server.wait(t.Context()))

	second, err := stand.Up(t.Context(), "nats")
	require.NoError(t, err)
	require.NotEqual(t, first[0].Origin, second[0].Origin)
	require.NoError(t, nats.serves(t.Context(), second[0].Value))
	require.NoDirExists(t, dir)
}

func TestStandDownEndsWhatUpStarted(t *testing.T) {
	stand := setupStand(t)
	addresses, err := stand.Up(t.Context(), "nats")
	require.NoError(t, err)
	gone, err := stand.Down(t.Context(), "nats")
	require.NoError(t, err)
	require.Equal(t, addresses[0].Value, gone[0].Value)
	require.Error(t, nats.serves(t.Context(), addresses[0].Value))
	status, err := stand.Status(t.Context())
	require.NoError(t, err)
	require.Contains(t, status, Address{Service: "nats", Variable: nats.variable})
}

func TestStandTakesGivenAddressOnlyIfItServes(t *testing.T) {
	stand := setupStand(t)
	t.Setenv(nats.variable, "nats://127.0.0.1:1")
	_, err := stand.Up(t.Context(), "nats")
	require.ErrorContains(t, err, nats.variable)

	t.Setenv(nats.variable, "")
	given := StartNATS(t, nil).Address()
	t.Setenv(nats.variable, given)
	addresses, err := stand.Up(t.Context(), "nats")
	require.NoError(t, err)
	require.Equal(t, []Address{{Service: "nats", Variable: nats.variable, Value: given, Origin: "environment", Serves: true}}, addresses)
	gone, err := stand.Down(t.Context(), "nats")
	require.NoError(t, err)
	require.Empty(t, gone)
	require.NoError(t, nats.serves(t.Context(), given))
}

func TestStandRefusesUnknownService(t *testing.T) {
	t.Parallel()
	_, err := Stand{Folder: t.TempDir()}.Up(t.Context(), "mysql")
	require.ErrorContains(t, err, `"mysql"`)
}

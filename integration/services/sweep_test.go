package services

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const childVariable = "TXMSG_SERVICES_CHILD"

// TestServerEndsWithKilledTestBinary runs itself as the test binary to be killed.
func TestServerEndsWithKilledTestBinary(t *testing.T) {
	if folder := os.Getenv(childVariable); folder != "" {
		server := StartNATS(t, nil)
		dir := server.instance.(*native).place.dir
		require.NoError(t, os.WriteFile(filepath.Join(folder, "next"), []byte(dir), 0o644))
		require.NoError(t, os.Rename(filepath.Join(folder, "next"), filepath.Join(folder, "dir")))
		select {}
	}
	if err := nats.installed(); err != nil {
		nats.miss(t, fmt.Errorf("%w: %w", err, errMissing))
	}
	if engine, err := dockerEngine(t.Context()); err == nil {
		require.NoError(t, engine.Close())
		t.Skip("a container is the reaper's to end")
	}
	folder := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestServerEndsWithKilledTestBinary$")
	child.Env = append(os.Environ(), childVariable+"="+folder)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	var dir []byte
	require.Eventually(t, func() bool {
		var err error
		dir, err = os.ReadFile(filepath.Join(folder, "dir"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	server, err := readProcess(filepath.Join(string(dir), "nats.pid"))
	require.NoError(t, err)
	require.True(t, server.alive())

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool {
		_, err := os.Stat(string(dir))
		return os.IsNotExist(err) && !server.alive()
	}, 30*time.Second, 10*time.Millisecond)
}

func TestSweepSparesProcessWithRecycledID(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		later string // appended to the start time
		dies  bool
	}{
		{"same process", "", true},
		{"same id, another start time", "1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sleeper := exec.Command("sleep", "60")
			require.NoError(t, sleeper.Start())
			t.Cleanup(func() {
				_ = sleeper.Process.Kill()
				_ = sleeper.Wait()
			})
			p, err := processByID(sleeper.Process.Pid)
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), folderPrefix+"test")
			require.NoError(t, os.Mkdir(dir, 0o755))
			line := fmt.Sprintf("%d %s KILL\n", p.id, p.start+test.later)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep.pid"), []byte(line), 0o644))

			require.NoError(t, sweepFolder(t.Context(), dir))
			require.NoDirExists(t, dir)
			require.Equal(t, !test.dies, p.alive())
		})
	}
}

func TestSweepRefusesForeignFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.Error(t, sweepFolder(t.Context(), dir))
	require.DirExists(t, dir)
}

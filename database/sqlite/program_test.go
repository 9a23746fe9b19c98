//go:build unix

package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Programs that the tests start: this test binary, with the name of what it is to do in the environment.
const (
	programVariable = "TXMSG_SQLITE_TEST_PROGRAM"
	pathVariable    = "TXMSG_SQLITE_TEST_PATH"
)

func TestMain(m *testing.M) {
	programs := map[string]func(ctx context.Context, path string) error{"migrate": migrate, "work": work, "lose disk": loseDisk}
	if run, ok := programs[os.Getenv(programVariable)]; ok {
		os.Exit(exit(run(context.Background(), os.Getenv(pathVariable))))
	}
	goleak.VerifyTestMain(m)
}

func exit(err error) int {
	if err == nil {
		return 0
	}
	_, _ = os.Stderr.WriteString(err.Error() + "\n")
	return 1
}

// program makes another process of this test binary.
func program(t testing.TB, name, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), programVariable+"="+name, pathVariable+"="+path)
	return cmd
}

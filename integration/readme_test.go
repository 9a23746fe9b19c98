package integration

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
)

// commands returns the lines of the README's shell blocks.
func commands(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(string(block[1])), "\n")...)
	}
	return lines
}

func TestReadmeCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("README: it builds and starts the demo and real services")
	}
	var demo, shop, checks []string
	for _, line := range commands(t) {
		switch {
		case line == "make demo":
			demo = append(demo, line)
		case strings.HasPrefix(line, "curl "):
			shop = append(shop, line)
		case strings.HasPrefix(line, "make demo-check"):
			checks = append(checks, line)
		default:
			require.Equal(t, "make test", line, "a command of the README that no test runs") // this is it
		}
	}
	require.Len(t, demo, 1)
	t.Run(demo[0], func(t *testing.T) { runDemo(t, demo[0], shop) })
	for _, line := range checks {
		t.Run(line, func(t *testing.T) {
			out, err := shell(t, line).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "check passed")
		})
	}
}

func TestCheckSeesSabotage(t *testing.T) {
	if testing.Short() {
		t.Skip("check: it builds and starts the demo")
	}
	for kind, seen := range map[string]string{"drop": "lost: ", "invent": "invented: "} {
		t.Run(kind, func(t *testing.T) {
			out, err := shell(t, "go run ./demo/cmd/check -patience 15s -sabotage "+kind).CombinedOutput()
			require.Error(t, err, "%s", out)
			require.Contains(t, string(out), seen)
		})
	}
}

// runDemo starts the demo by the README's command, waits until it serves, runs the README's requests and stops it as a
// user would.
func runDemo(t *testing.T, command string, requests []string) {
	demo := shell(t, command)
	demo.Env = append(demo.Env, "TXMSG_DATA_DIR="+t.TempDir())
	var log strings.Builder
	demo.Stdout, demo.Stderr = &log, &log
	require.NoError(t, demo.Start())
	ended := make(chan error, 1)
	go func() { ended <- demo.Wait() }()
	group := -demo.Process.Pid // make and what it started
	t.Cleanup(func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	require.Eventually(t, func() bool { return serves(t.Context()) }, 4*time.Minute, 100*time.Millisecond)

	for _, request := range requests {
		out, err := shell(t, request).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), `"customer":"Ada"`)
	}
	require.Eventually(t, func() bool {
		out, err := shell(t, requests[len(requests)-1]).Output()
		return err == nil && strings.Contains(string(out), `"state":"paid"`)
	}, 10*time.Second, 100*time.Millisecond, "the order is never paid")

	require.NoError(t, syscall.Kill(group, syscall.SIGINT))
	select {
	case <-ended: // make reports the interrupt as an error of its own
	case <-time.After(30 * time.Second):
		require.Fail(t, "the demo does not stop", "%s", log.String())
	}
	require.False(t, serves(t.Context()))
	require.NotContains(t, log.String(), "panic")
}

func serves(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080/", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(page), "<title>Orders</title>")
}

// shell runs a line in the project's root, in a process group of its own, with the services' addresses.
func shell(t *testing.T, line string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir = ".."
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = os.Environ()
	if strings.Contains(line, "BACKEND=") {
		cmd.Env = append(cmd.Env,
			"TXMSG_TEST_POSTGRES="+services.Postgres(t), "TXMSG_TEST_KAFKA="+services.Kafka(t), "TXMSG_TEST_ROCKETMQ="+services.RocketMQ(t))
	}
	return cmd
}

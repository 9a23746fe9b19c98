package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// skew is how wrong the clocks of the two nodes are.
const skew = 10 * time.Minute

func TestClockCases(t *testing.T) {
	t.Parallel()
	t.Run("C27 nodes whose clocks are wrong steal nothing, and wait as long as they should", testWrongClocks)
}

func testWrongClocks(t *testing.T) {
	t.Parallel()
	const rows, refused, lost = 1000, 40, 40
	server, url := services.Postgres(t), services.NATS(t)
	s := newShop(t, server, natsAt(url))
	program := buildClock(t)
	ctx := context.Background()
	startClock(t, program, skew, s.dsn, url)
	startClock(t, program, -skew, s.dsn, url)
	eventually(t, func() bool {
		var owners, least int
		require.NoError(t, s.direct.QueryRow(ctx, `SELECT count(*), coalesce(min(lanes), 0) FROM (
			SELECT count(*) AS lanes FROM txmsg_lane WHERE owner IS NOT NULL GROUP BY owner) o`).Scan(&owners, &least))
		return owners == 2 && least == localtable.Lanes/2
	}, "the nodes to share the lanes")

	s.fill(t, rows)
	missing := "missing-" + txmsg.NewID()
	for kind, count := range map[string]int{"refused": refused, "lost": lost} {
		name := s.topic
		if kind == "lost" {
			name = missing
		}
		_, err := s.direct.Exec(ctx, `INSERT INTO txmsg_message (destination, topic, key, type, body) SELECT 'default', $1, $2 || n, $2, 'x' FROM generate_series(1, $3) n`, name, kind, count)
		require.NoError(t, err)
	}
	eventually(t, func() bool {
		var sent int
		require.NoError(t, s.direct.QueryRow(ctx, "SELECT count(*) FROM txmsg_delivered").Scan(&sent))
		return sent == rows+refused
	}, "all that have a route to be sent")
	read := s.read(t)
	require.Len(t, read, rows+refused, "records")
	require.Len(t, copies(read), rows+refused, "ids")

	// Waits, as the database measured them. A retry takes a second, up to a quarter more, and the time to the next poll; what has
	// no route waits as long again as it was old, up to a quarter more, at least a second.
	var least, most float64
	var count int
	require.NoError(t, s.direct.QueryRow(ctx, `SELECT min(wait), max(wait), count(*) FROM (
		SELECT extract(epoch FROM delivered_at - (errors->0->>'at')::timestamptz)::float8 AS wait FROM txmsg_delivered WHERE type = 'refused') w`).Scan(&least, &most, &count))
	require.Equal(t, refused, count)
	require.Greater(t, least, 0.99, "seconds to the second attempt")
	require.Less(t, most, 30.0, "seconds to the second attempt")
	require.NoError(t, s.direct.QueryRow(ctx, `SELECT min(wait), max(wait / greatest(age, 1)), count(*) FROM (
		SELECT extract(epoch FROM due_at - (errors->-1->>'at')::timestamptz)::float8 AS wait, extract(epoch FROM (errors->-1->>'at')::timestamptz - created_at)::float8 AS age
		FROM txmsg_held WHERE type = 'lost') w`).Scan(&least, &most, &count))
	require.Equal(t, lost, count)
	require.Greater(t, least, 0.99, "seconds that what has no route waits")
	require.Less(t, most, 1.3, "these, divided by its age")
}

// startClock runs a node whose clock is wrong by so much; it ends with t.
func startClock(t *testing.T, program string, by time.Duration, dsn, url string) {
	t.Helper()
	command := exec.Command(program, dsn, url)
	command.Env = append(os.Environ(), "CLOCK_SKEW="+strconv.Itoa(int(by.Seconds())))
	services.EndWithParent(command)
	complaints := &log{}
	command.Stderr = complaints
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		require.NoError(t, command.Wait(), "a node: %v", complaints.lines())
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err, "a node: %v", complaints.lines())
	told, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(by), time.Unix(told, 0), time.Minute, "the node's clock")
}

// buildClock builds the node with a package time that tells the wrong time.
func buildClock(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(original, "time.go"))
	require.NoError(t, err)
	const now = "\tsec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, bytes.Count(source, []byte(now)), "package time is not as expected")
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string]string{
		"time.go": string(bytes.Replace(source, []byte(now), []byte(now+"\tsec += skew\n"), 1)),
		"skew.go": skewSource,
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		overlay["Replace"][filepath.Join(original, name)] = file
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o644))
	program := filepath.Join(dir, "clock")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./testdata/clock")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "build: %s", output)
	return program
}

const skewSource = `package time

import "syscall"

var skew = func() (seconds int64) {
	text, _ := syscall.Getenv("CLOCK_SKEW")
	sign := int64(1)
	for _, digit := range text {
		if digit == '-' {
			sign = -1
			continue
		}
		seconds = seconds*10 + int64(digit-'0')
	}
	return sign * seconds
}()
`

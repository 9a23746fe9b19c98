package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	sampleInterval = 3 * time.Millisecond
	statementLines = 12
	functionLines  = 18
)

// shapes are what the compiler adds to the names of generic functions.
var shapes = regexp.MustCompile(`\[go\.shape\..*\]`)

// watching takes a profile of our own measurement, if profiles are asked for, until the returned function is called.
func (b *bench) watching(work string, c contender) (stop func()) {
	if b.profiles == nil || c.name != us.name {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	var statements string
	wait.Go(func() { statements = b.server.watch(ctx) })
	functions := profileCPU()
	return sync.OnceFunc(func() {
		cancel()
		wait.Wait()
		b.profiles[work] = "What the database's sessions were doing, by samples:\n\n" + statements +
			"\nWhere this process spent its processor time:\n\n" + functions()
	})
}

// profileCPU returns what ends the profile and names its functions.
func profileCPU() (stop func() string) {
	file, err := os.CreateTemp("", "txmsg-bench-*.pprof")
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	return func() string {
		pprof.StopCPUProfile()
		if err != nil {
			return err.Error() + "\n"
		}
		defer func() { _ = os.Remove(file.Name()) }()
		_ = file.Close() // a profile that is cut off is refused below
		top, err := exec.Command("go", "tool", "pprof", "-top", "-cum", fmt.Sprintf("-nodecount=%d", functionLines), file.Name()).CombinedOutput()
		if err != nil {
			return err.Error() + "\n"
		}
		return shapes.ReplaceAllString(string(top), "")
	}
}

// watch asks again and again which statement each session of the benchmark is at and what it waits for.
func (s *server) watch(ctx context.Context) string {
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return err.Error() + "\n"
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	type at struct{ state, wait, statement string }
	seen, rounds := map[at]int{}, 0
	for ctx.Err() == nil {
		rows, _ := conn.Query(ctx, `SELECT state, coalesce(wait_event_type || ':' || wait_event, 'on a processor'),
    left(btrim(regexp_replace(query, '\s+', ' ', 'g')), 100)
FROM pg_stat_activity WHERE datname LIKE 'txmsg_bench_%' AND state IN ('active', 'idle in transaction')`)
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a at, err error) {
			err = row.Scan(&a.state, &a.wait, &a.statement)
			return a, err
		})
		if err != nil {
			break // the end of ctx, most likely
		}
		for _, a := range found {
			seen[a]++
		}
		rounds++
		time.Sleep(sampleInterval)
	}
	var places []at
	for a := range seen {
		places = append(places, a)
	}
	slices.SortFunc(places, func(a, b at) int { return cmp.Compare(seen[b], seen[a]) })
	var text strings.Builder
	for _, a := range places[:min(len(places), statementLines)] {
		fmt.Fprintf(&text, "%6.2f sessions  %-20s %-24s %s\n", float64(seen[a])/float64(rounds), a.state, a.wait, a.statement)
	}
	return text.String()
}

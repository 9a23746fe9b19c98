package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

const (
	latencyRate = 200 // transactions per second, begun on time whatever became of the ones before
	warmUp      = 2   // seconds that do not count
	arrivalTime = 8 * time.Second
)

// measureLatency has the writer in the relay's process.
func measureLatency(ctx context.Context, b *bench, c contender) (values, error) {
	return b.latency(ctx, c, "latency", func(s *stage, arrivals *tracker) error {
		return steady(b.sizes.latency*latencyRate, func(id int64) error {
			err := s.subject.write(ctx, id)
			arrivals.commit(id)
			return err
		})
	})
}

// measureLatencyApart has the writer in a process of its own, whose commits the relay is not told of.
func measureLatencyApart(ctx context.Context, b *bench, c contender) (values, error) {
	return b.latency(ctx, c, "latency_apart", func(s *stage, arrivals *tracker) error {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, program, "writer", "-contender", c.name, "-database", s.db.dsn,
			"-kafka", b.kafka, "-topic", s.out.topic, "-count", strconv.Itoa(b.sizes.latency*latencyRate))
		cmd.Stderr = os.Stderr
		commits, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		read := readCommits(commits, arrivals)
		return errors.Join(read, cmd.Wait())
	})
}

func (b *bench) latency(ctx context.Context, c contender, name string, write func(*stage, *tracker) error) (values, error) {
	arrivals := newTracker(b.sizes.latency * latencyRate)
	s, err := b.stage(ctx, c, true, nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	stopConsumer, err := consume(ctx, b.kafka, s.out.topic, arrivals)
	if err != nil {
		return nil, err
	}
	defer stopConsumer()
	stop := s.relay(ctx)
	time.Sleep(time.Second) // relay and consumer find their places
	unwatch := b.watching(name, c)
	err = write(s, arrivals)
	unwatch()
	if err == nil {
		arrivals.wait(arrivalTime)
	}
	if err := errors.Join(err, stop()); err != nil {
		return nil, err
	}
	sorted, missing := arrivals.latencies(warmUp * latencyRate)
	if len(sorted) == 0 {
		return nil, errors.New("nothing arrived")
	}
	return values{
		"p50 ms": percentile(sorted, 0.5), "p99 ms": percentile(sorted, 0.99), "max ms": sorted[len(sorted)-1],
		"missing": float64(missing), "duplicates": float64(arrivals.again.Load()),
	}, nil
}

// steady runs fn for each order from 1 to count at the rate of the test.
func steady(count int, fn func(id int64) error) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for i := range count {
		time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second / latencyRate)))
		wait.Go(func() {
			if err := fn(int64(i + 1)); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return failed
}

// runWriter is the writer process: it prints each order with the time at which its commit returned.
func runWriter(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("bench writer", flag.ExitOnError)
	name := flags.String("contender", "", "who writes")
	dsn := flags.String("database", "", "where to")
	address := flags.String("kafka", "", "broker of the relay")
	topic := flags.String("topic", "", "topic of the messages")
	count := flags.Int("count", 0, "transactions")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	c, known := contenderNamed(*name)
	if !known {
		return fmt.Errorf("unknown contender %q", *name)
	}
	db := &database{dsn: *dsn}
	if err := db.connect(ctx); err != nil {
		return err
	}
	defer db.pool.Close()
	out, err := openSink(ctx, *address, *topic, nil)
	if err != nil {
		return err
	}
	defer out.close()
	writer, err := c.open(db, out)
	if err != nil {
		return err
	}
	defer writer.close()
	commits := newTracker(*count)
	if err := steady(*count, func(id int64) error {
		err := writer.write(ctx, id)
		commits.commit(id)
		return err
	}); err != nil {
		return err
	}
	for id := 1; id <= *count; id++ {
		fmt.Println(id, commits.committed[id].Load())
	}
	return nil
}

func readCommits(from io.Reader, into *tracker) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var id int
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &id, &at); err != nil {
			return err
		}
		into.committed[id].Store(at)
	}
	return lines.Err()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// catchUp is how long a relay may take for what is left when the writers stop.
const catchUp = 30 * time.Second

// measureWrite writes with no relay running.
func measureWrite(ctx context.Context, b *bench, c contender) (values, error) {
	s, err := b.stage(ctx, c, false, nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	before, err := s.db.counters(ctx)
	if err != nil {
		return nil, err
	}
	defer b.watching("write", c)()
	elapsed, err := s.write(ctx, b.sizes.transactions)
	if err != nil {
		return nil, err
	}
	after, err := s.db.counters(ctx)
	count := float64(writers * b.sizes.transactions)
	return values{
		"tx/s": count / elapsed.Seconds(), "db CPU us/message": (after.cpu - before.cpu) / count * 1e6,
		"WAL bytes/message": float64(after.wal-before.wal) / count,
	}, err
}

// measureWriteRelay writes while the relay sends to Kafka, and counts what the database spends until all is delivered.
func measureWriteRelay(ctx context.Context, b *bench, c contender) (values, error) {
	count := writers * b.sizes.relayed
	acks := newTracker(count)
	s, err := b.stage(ctx, c, true, acks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	stop := s.relay(ctx)
	defer func() { _ = stop() }() // again
	before, err := s.db.counters(ctx)
	if err != nil {
		return nil, err
	}
	unwatch := b.watching("write_relay", c)
	elapsed, err := s.write(ctx, b.sizes.relayed)
	if err != nil {
		return nil, err
	}
	written := time.Now()
	if !acks.wait(catchUp) {
		return nil, fmt.Errorf("%d of %d messages sent", acks.count.Load(), count)
	}
	lag := time.Since(written)
	unwatch()
	if err := stop(); err != nil {
		return nil, err
	}
	after, err := s.db.counters(ctx)
	return values{
		"tx/s": float64(count) / elapsed.Seconds(), "lag s": lag.Seconds(), "duplicates": float64(acks.again.Load()),
		"WAL bytes/message": float64(after.wal-before.wal) / float64(count),
		"db CPU us/message": (after.cpu - before.cpu) / float64(count) * 1e6,
	}, err
}

// write has every writer run its transactions, and returns how long all took.
func (s *stage) write(ctx context.Context, each int) (time.Duration, error) {
	var ids atomic.Int64
	var wait sync.WaitGroup
	failures := make([]error, writers)
	began := time.Now()
	for i := range writers {
		wait.Go(func() {
			for range each {
				if err := s.subject.write(ctx, ids.Add(1)); err != nil {
					failures[i] = err
					return
				}
			}
		})
	}
	wait.Wait()
	return time.Since(began), errors.Join(failures...)
}

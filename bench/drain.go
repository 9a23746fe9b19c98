package main

import (
	"context"
	"fmt"
	"time"
)

const (
	drainLimit  = 10 * time.Second // then a rate is known well enough, of one that acknowledges message by message
	beforeDrain = 300 * time.Millisecond
)

// measureDrainKafka drains a backlog to Kafka.
func measureDrainKafka(ctx context.Context, b *bench, c contender) (values, error) {
	return measureDrained(ctx, b, c, "drain_kafka", true, b.sizes.drained)
}

// measureDrain drains the same backlog to a broker that costs nothing.
func measureDrain(ctx context.Context, b *bench, c contender) (values, error) {
	return measureDrained(ctx, b, c, "drain_noop", false, b.sizes.drained)
}

// measureBacklog drains a much longer backlog.
func measureBacklog(ctx context.Context, b *bench, c contender) (values, error) {
	return measureDrained(ctx, b, c, "backlog", false, b.sizes.backlog)
}

func measureDrained(ctx context.Context, b *bench, c contender, name string, toKafka bool, count int) (values, error) {
	acks := newTracker(count)
	s, err := b.stage(ctx, c, toKafka, acks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.db.fill(ctx, s.subject.pendingSQL(), count); err != nil {
		return nil, err
	}
	if err := b.server.row(ctx, "CHECKPOINT"); err != nil {
		return nil, err
	}
	time.Sleep(beforeDrain)
	before, err := s.db.counters(ctx)
	if err != nil {
		return nil, err
	}
	defer b.watching(name, c)()
	began := time.Now()
	stop := s.relay(ctx)
	acks.wait(drainLimit)
	elapsed, drained := time.Since(began), float64(acks.count.Load())
	after, err := s.db.counters(ctx)
	if stopped := stop(); err == nil {
		err = stopped
	}
	if err == nil && drained == 0 {
		err = fmt.Errorf("nothing was sent in %s", drainLimit)
	}
	return values{
		"messages/s": drained / elapsed.Seconds(), "drained": drained, "duplicates": float64(acks.again.Load()),
		"db CPU us/message": (after.cpu - before.cpu) / drained * 1e6,
		"WAL bytes/message": float64(after.wal-before.wal) / drained,
	}, err
}

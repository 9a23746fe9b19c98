package main

import (
	"context"
	"time"
)

// measureIdle counts the transactions of a relay that has nothing to do. The server publishes a session's counters up to ten
// seconds late, hence the time to settle.
func measureIdle(ctx context.Context, b *bench, c contender) (values, error) {
	s, err := b.stage(ctx, c, true, nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	stop := s.relay(ctx)
	defer func() { _ = stop() }()
	wait(ctx, b.sizes.settle)
	before, err := s.db.counters(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	wait(ctx, b.sizes.idle)
	after, err := s.db.counters(ctx)
	seconds := time.Since(began).Seconds()
	return values{
		"tx/s":        float64(after.transactions-before.transactions) / seconds,
		"WAL bytes/s": float64(after.wal-before.wal) / seconds,
		"db CPU ms/s": (after.cpu - before.cpu) / seconds * 1000,
		"window in s": seconds,
	}, err
}

func wait(ctx context.Context, seconds int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(seconds) * time.Second):
	}
}

// Command clock is a relay whose machine's clock may be wrong. The test builds it with a package time that adds CLOCK_SKEW seconds
// to what it tells.
//
//	CLOCK_SKEW=-600 clock DSN NATS-URL
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println(time.Now().Unix())
	if err := relay(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func relay(ctx context.Context, dsn, url string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		return err
	}
	broker, err := nats.Open(ctx, nats.Config{URLs: []string{url}})
	if err != nil {
		return err
	}
	m, err := localtable.New[pgx.Tx](db, &slow{Broker: broker, refused: map[string]bool{}}, localtable.Config{LeaseTTL: 30 * time.Second, BatchSize: 50})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// slow is a broker that takes a while, and refuses messages of the type "refused" once.
type slow struct {
	localtable.Broker
	mu      sync.Mutex
	refused map[string]bool
}

func (s *slow) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	<-time.After(200 * time.Millisecond)
	results := make([]error, len(msgs))
	var passed []txmsg.Message
	var places []int
	for i, m := range msgs {
		if s.refuses(m) {
			results[i] = fmt.Errorf("once: %w", txmsg.ErrRefused)
			continue
		}
		passed, places = append(passed, m), append(places, i)
	}
	if len(passed) > 0 {
		for i, err := range s.Broker.Publish(ctx, passed) {
			results[places[i]] = err
		}
	}
	return results
}

func (s *slow) refuses(m txmsg.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := m.Type == "refused" && !s.refused[m.ID]
	s.refused[m.ID] = true
	return first
}

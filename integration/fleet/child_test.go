package fleet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/subprocess"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// plan is what a relay is told.
type plan struct {
	Database string
	Broker   string
	Seed     uint64
	Lease    time.Duration
}

// beRelay is the whole life of a relay's process.
func beRelay(text string) int {
	return subprocess.Be(text, func(ctx context.Context, p plan, reports io.Writer) error {
		report := &reporter{pipe: reports}
		report.line("listening") // it can be told to end from now on
		return relay(ctx, p, report)
	})
}

func relay(ctx context.Context, p plan, report *reporter) error {
	pool, err := pgxpool.New(ctx, p.Database+"&pool_max_conns=6")
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := postgres.New(pool, postgres.Config{})
	if err != nil {
		return err
	}
	broker, err := kafka.Open(ctx, kafka.Config{Brokers: []string{p.Broker}, PublishTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	m, err := localtable.New[pgx.Tx](watched{db, report}, &refusingBroker{Broker: broker, seed: p.Seed, report: report}, localtable.Config{
		LeaseTTL: p.Lease, PollInterval: 100 * time.Millisecond, BatchSize: 100,
		MaxAttempts: maxAttempts, DeadKey: localtable.Release,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// reporter tells the parent what happens, and what is in flight: messages that are being published or settled.
type reporter struct {
	pipe    io.Writer
	mu      sync.Mutex
	flying  int
	refused int // of those, messages that the broker refuses now
}

func (r *reporter) line(words ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(words...)
}

func (r *reporter) write(words ...any) { _, _ = fmt.Fprintln(r.pipe, words...) }

// depart adds to what is in flight, until land.
func (r *reporter) depart(flying, refused int) (land func()) {
	r.add(flying, refused)
	return func() { r.add(-flying, -refused) }
}

func (r *reporter) add(flying, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying, r.refused = r.flying+flying, r.refused+refused
	r.write("flying", r.flying, r.refused)
}

// watched is a store that reports its settlements.
type watched struct {
	*postgres.DB
	report *reporter
}

func (w watched) Settle(ctx context.Context, s localtable.Settlement) (int, error) {
	refused := 0
	for _, result := range s.Results {
		if result.Fate == localtable.Retry || result.Fate == localtable.Dead {
			refused++
		}
	}
	defer w.report.depart(len(s.Results), refused)()
	return w.DB.Settle(ctx, s)
}

// refusingBroker is a broker that takes its time and refuses some messages. It reports each refusal, and each message that it may
// refuse and passes on, before anything comes of it.
type refusingBroker struct {
	localtable.Broker
	seed   uint64
	report *reporter
}

func (b *refusingBroker) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	var passed []txmsg.Message
	var places []int
	for i, m := range msgs {
		verdict := verdictOf(b.seed, m.ID)
		if verdict == refusedAlways || verdict == refusedSometimes && rand.N(2) == 0 {
			b.report.line("refused", m.ID)
			results[i] = fmt.Errorf("not this one: %w", txmsg.ErrRefused)
			continue
		}
		if verdict == refusedSometimes {
			b.report.line("passed", m.ID)
		}
		passed, places = append(passed, m), append(places, i)
	}
	defer b.report.depart(len(msgs), len(msgs)-len(passed))()
	if len(passed) > 0 {
		for i, err := range b.Broker.Publish(ctx, passed) {
			results[places[i]] = err
		}
	}
	pause(ctx, 5*time.Millisecond+rand.N(40*time.Millisecond)) // it has stored them, and the relay does not know yet
	return results
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

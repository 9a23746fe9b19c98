package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/database/postgres"
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
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	tell := &teller{pipe: os.NewFile(3, "reports")}
	tell.line("listening") // it can be told to end from now on
	if err := relay(ctx, p, tell); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func relay(ctx context.Context, p plan, tell *teller) error {
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
	m, err := localtable.New[pgx.Tx](watched{db, tell}, &picky{Broker: broker, seed: p.Seed, tell: tell}, localtable.Config{
		LeaseTTL: p.Lease, PollInterval: 100 * time.Millisecond, BatchSize: 100,
		MaxAttempts: maxAttempts, DeadKey: localtable.Release,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// teller tells the parent what happens, and what is in flight: messages that are being published or settled.
type teller struct {
	pipe    *os.File
	mu      sync.Mutex
	flying  int
	refused int // of those, messages that the broker refuses now
}

func (t *teller) line(words ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(words...)
}

func (t *teller) write(words ...any) { _, _ = t.pipe.WriteString(fmt.Sprintln(words...)) }

// depart adds to what is in flight, until land.
func (t *teller) depart(flying, refused int) (land func()) {
	t.add(flying, refused)
	return func() { t.add(-flying, -refused) }
}

func (t *teller) add(flying, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flying, t.refused = t.flying+flying, t.refused+refused
	t.write("flying", t.flying, t.refused)
}

// watched is a store that tells of its settlements.
type watched struct {
	*postgres.DB
	tell *teller
}

func (w watched) Settle(ctx context.Context, s localtable.Settlement) (int, error) {
	refused := 0
	for _, result := range s.Results {
		if result.Fate == localtable.Retry || result.Fate == localtable.Dead {
			refused++
		}
	}
	defer w.tell.depart(len(s.Results), refused)()
	return w.DB.Settle(ctx, s)
}

// picky is a broker that takes its time and refuses some messages. It tells of each refusal, and of each message that it may
// refuse and passes on, before anything comes of it.
type picky struct {
	localtable.Broker
	seed uint64
	tell *teller
}

func (b *picky) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	var passed []txmsg.Message
	var places []int
	for i, m := range msgs {
		temper := temperOf(b.seed, m.ID)
		if temper == never || temper == sometimes && rand.N(2) == 0 {
			b.tell.line("refused", m.ID)
			results[i] = fmt.Errorf("not this one: %w", txmsg.ErrRefused)
			continue
		}
		if temper == sometimes {
			b.tell.line("passed", m.ID)
		}
		passed, places = append(passed, m), append(places, i)
	}
	defer b.tell.depart(len(msgs), len(msgs)-len(passed))()
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

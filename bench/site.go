package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

const (
	timedPolls   = 31
	countedPolls = 5
	warmPolls    = 40
	drainMost    = 5 * time.Minute
	batch        = 500 // rows of a poll, as a relay asks for
)

// site is a situation's database, and a relay's way to it.
type site struct {
	situation
	amounts amounts
	db      *database
	pool    *pgxpool.Pool
	store   *postgres.DB
	plans   *plans
	backlog int // rows that are ready beside those that a drain adds
	samples []values
	ends    []func()
}

func (g *growth) open(ctx context.Context, s situation) (_ *site, err error) {
	p := &site{situation: s, amounts: g.amounts, plans: &plans{}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.db, err = g.server.fresh(ctx); err != nil {
		return nil, err
	}
	p.ends = append(p.ends, func() { p.db.drop(context.WithoutCancel(ctx)) })
	if p.pool, err = p.plans.connect(ctx, p.db.dsn); err != nil {
		return nil, err
	}
	p.ends = append(p.ends, p.pool.Close)
	if p.store, err = postgres.New(p.pool, postgres.Config{}); err != nil {
		return nil, err
	}
	return p, p.store.Migrate(ctx)
}

func (p *site) close() {
	for i := range p.ends {
		p.ends[len(p.ends)-1-i]()
	}
}

// measure takes one sample: what a poll costs that finds nothing, what one costs that finds a batch, and how fast a drain is.
func (p *site) measure(ctx context.Context) (values, error) {
	found := values{}
	if p.backlog == 0 {
		if err := p.poll(ctx, found, "idle poll"); err != nil {
			return nil, err
		}
	}
	if err := p.fill(ctx, p.amounts.drained); err != nil {
		return nil, err
	}
	if err := p.db.exec(ctx, "CHECKPOINT"); err != nil {
		return nil, err
	}
	if err := p.poll(ctx, found, "full poll"); err != nil {
		return nil, err
	}
	status, err := middle(countedPolls, func() (float64, error) {
		began := time.Now()
		_, err := p.store.Status(ctx)
		return float64(time.Since(began)) / float64(time.Millisecond), err
	})
	if err != nil {
		return nil, err
	}
	found["status, ms"] = status
	rate, err := p.drain(ctx, p.amounts.drained)
	found["drain, messages/s"] = rate
	return found, err
}

// poll measures reads as a relay makes them that holds every lane. The first ones are not counted: a relay that polls knows the table.
func (p *site) poll(ctx context.Context, found values, name string) error {
	lanes := make([]localtable.Lane, localtable.Lanes)
	for number := range lanes {
		lanes[number].Number = number
	}
	read := func() error {
		_, err := p.store.Read(ctx, "default", lanes, batch)
		return err
	}
	for range warmPolls {
		if err := read(); err != nil {
			return err
		}
		time.Sleep(p.amounts.pause)
	}
	var errs error
	var err error
	found[name+", ms"], err = middle(timedPolls, func() (float64, error) {
		began := time.Now()
		err := read()
		return float64(time.Since(began)) / float64(time.Millisecond), err
	})
	errs = errors.Join(errs, err)
	found[name+", buffers"], err = middle(countedPolls, func() (float64, error) {
		p.plans.begin()
		err := read()
		buffers, failed := p.plans.end()
		return float64(buffers), errors.Join(err, failed)
	})
	return errors.Join(errs, err)
}

// drain relays until so many messages are sent, and returns how many a second.
func (p *site) drain(ctx context.Context, count int) (rate float64, err error) {
	broker := &counter{most: int64(count), done: make(chan struct{})}
	m, err := localtable.New(p.store, broker, localtable.Config{})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-broker.done:
	case <-ctx.Done():
	case <-time.After(drainMost):
	}
	elapsed := time.Since(began)
	cancel()
	err = <-ended
	if sent := broker.sent.Load(); sent < int64(count) {
		err = errors.Join(err, fmt.Errorf("%d of %d messages were sent in %s", sent, count, elapsed.Round(time.Second)))
	}
	return float64(count) / elapsed.Seconds(), err
}

// counter is a broker that stores nothing, says yes and counts.
type counter struct {
	sent atomic.Int64
	most int64
	done chan struct{} // closed when it has said yes so often
	once sync.Once
}

func (c *counter) Publish(_ context.Context, msgs []txmsg.Message) []error {
	if c.sent.Add(int64(len(msgs))) >= c.most {
		c.once.Do(func() { close(c.done) })
	}
	return make([]error, len(msgs))
}

func (*counter) Check(txmsg.Message) error                           { return nil }
func (*counter) Missing(context.Context, []string) ([]string, error) { return nil, nil }
func (*counter) Close() error                                        { return nil }

// plans are what the server tells of the statements that it has executed, while it is asked to.
type plans struct {
	asked   atomic.Bool
	mu      sync.Mutex
	buffers int64
	failed  error
}

const askedKey = "asked"

// connect opens a pool whose connections explain what they did, as long as plans are asked for. It needs a superuser.
func (p *plans) connect(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 12
	for name, value := range map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on", "auto_explain.log_timing": "off",
		"auto_explain.log_format": "json", "auto_explain.log_level": "notice", "auto_explain.log_min_duration": "-1",
	} {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	cfg.ConnConfig.OnNotice = p.notice
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		asked := p.asked.Load()
		if known, _ := conn.PgConn().CustomData()[askedKey].(bool); known == asked {
			return true, nil
		}
		conn.PgConn().CustomData()[askedKey] = asked
		duration := "-1"
		if asked {
			duration = "0"
		}
		_, err := conn.Exec(ctx, "SELECT set_config('auto_explain.log_min_duration', $1, false)", duration)
		return err == nil, err
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// notice takes a text like "duration: 0.5 ms plan: {…}".
func (p *plans) notice(_ *pgconn.PgConn, notice *pgconn.Notice) {
	_, text, ok := strings.Cut(notice.Message, "plan:")
	if !ok || strings.Contains(notice.Message, "auto_explain.log_min_duration") {
		return
	}
	var told struct {
		Plan struct {
			Hit  int64 `json:"Shared Hit Blocks"`
			Read int64 `json:"Shared Read Blocks"`
		}
	}
	err := json.Unmarshal([]byte(text), &told)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
	p.buffers += told.Plan.Hit + told.Plan.Read
}

func (p *plans) begin() {
	p.asked.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffers, p.failed = 0, nil
}

// end returns how many shared buffers were looked at since begin.
func (p *plans) end() (int64, error) {
	p.asked.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buffers, p.failed
}

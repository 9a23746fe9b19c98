package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/consumer/subscribertest"
	"github.com/txmsg/txmsg-go/txmsg"
)

const (
	group = "payments"
	topic = "orders"
)

type handler = consumer.Handler[*storetest.Tx]

// bundle is a database, a broker and a messenger in memory, and the effects of handlers.
type bundle struct {
	store     storetest.Memory
	broker    subscribertest.Memory
	messenger messenger
	logs      logs
	cfg       consumer.Config
	applied   atomic.Int64 // by handlers that apply
}

func setup() *bundle {
	b := &bundle{cfg: consumer.Config{Name: group, Topics: []string{topic}}}
	b.messenger.db = &b.store
	b.cfg.Logger = slog.New(&b.logs)
	return b
}

// apply is the effect of a handler: it counts once its transaction commits.
func (b *bundle) apply(tx *storetest.Tx) error {
	tx.OnCommit(func() { b.applied.Add(1) })
	return nil
}

func (b *bundle) publish(t *testing.T, msgs ...txmsg.Message) {
	t.Helper()
	require.NoError(t, b.broker.Publish(t.Context(), msgs...))
}

func message(id string) txmsg.Message { return txmsg.Message{ID: id, Topic: topic, Body: []byte(id)} }

// node is a running consumer.
type node struct {
	cancel context.CancelFunc
	done   chan error
}

func (b *bundle) start(t *testing.T, h handler) *node {
	t.Helper()
	c, err := consumer.New(&b.messenger, &b.store, b.broker.Subscriber(group, topic), h, b.cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // of a test that failed before it stopped the node
	n := &node{cancel, make(chan error, 1)}
	go func() { n.done <- c.Run(ctx) }()
	synctest.Wait()
	return n
}

func (n *node) stop(t *testing.T) {
	t.Helper()
	n.cancel()
	require.NoError(t, <-n.done)
}

// settled lets d pass in the bubble's time.
func settled(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bundle) pending() int { return b.broker.Pending(group, topic) }

// messenger runs transactions of a Memory; what they publish is in published once they commit.
type messenger struct {
	db *storetest.Memory

	mu        sync.Mutex
	published []txmsg.Message
	fail      []error // of the next transactions, before they begin
	hang      int     // how many of the next commits wait for the end of their context
}

func (m *messenger) Transact(ctx context.Context, fn func(ctx context.Context, tx *storetest.Tx, out txmsg.Publisher) error) error {
	if err := m.nextFailure(); err != nil {
		return err
	}
	start := func(tx txmsg.Transaction[*storetest.Tx]) txmsg.Attempt { return &attempt{messenger: m, tx: tx.Tx()} }
	return txmsg.Transact(ctx, m.db, txmsg.TransactConfig{}, start, fn)
}

func (m *messenger) nextFailure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.fail) == 0 {
		return nil
	}
	err := m.fail[0]
	m.fail = m.fail[1:]
	return err
}

func (m *messenger) hangs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hang--
	return m.hang >= 0
}

func (m *messenger) messages() []txmsg.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.published)
}

type attempt struct {
	txmsg.Collector
	messenger *messenger
	tx        *storetest.Tx
}

func (a *attempt) Prepare(ctx context.Context) ([]txmsg.Statement, error) {
	if a.messenger.hangs() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a.tx.OnCommit(func() {
		a.messenger.mu.Lock()
		defer a.messenger.mu.Unlock()
		a.messenger.published = append(a.messenger.published, a.Messages()...)
	})
	return nil, nil
}

func (a *attempt) Resolve(context.Context) txmsg.Outcome { return txmsg.Unknown }
func (a *attempt) End(txmsg.Outcome)                     {}

// logs keeps what was logged above Debug.
type logs struct {
	mu    sync.Mutex
	lines []slog.Record
}

func (l *logs) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logs) WithGroup(string) slog.Handler                    { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r)
	return nil
}

// above returns the lines above level.
func (l *logs) above(level slog.Level) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, r := range l.lines {
		if r.Level > level {
			line := r.Message
			r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
			lines = append(lines, line)
		}
	}
	return lines
}

func (l *logs) count(phrase string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, r := range l.lines {
		if r.Message == phrase {
			count++
		}
	}
	return count
}

// oneDelivery is a subscriber that delivers one message and waits for the end.
type oneDelivery struct{ delivery txmsg.Delivery }

func (s *oneDelivery) Run(ctx context.Context, deliver func(context.Context, txmsg.Delivery) error) error {
	err := deliver(context.WithoutCancel(ctx), s.delivery)
	<-ctx.Done()
	return err
}

// runOnce applies what the subscriber delivers.
func (b *bundle) runOnce(t *testing.T, s consumer.Subscriber) error {
	t.Helper()
	c, err := consumer.New(&b.messenger, &b.store, s, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
		return b.apply(tx)
	}, b.cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return c.Run(ctx)
}

package localtable_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

type messenger = localtable.Messenger[*storetest.Tx]

// world is a database, a broker, and relays, in a bubble whose time moves when all wait.
type world struct {
	t      *testing.T
	memory *storetest.Memory
	broker *broker
	log    *logBook
	relays []*process
}

// process is a relay in a process of its own, with its connection to the broker.
type process struct {
	*messenger
	gate  *gate
	stop  func()        // ends Run
	done  chan error    // what Run returned
	conns []*connection // to the brokers
	ends  sync.Once
}

// inWorld runs test in a bubble. At the end every relay must stop, and none may have broken the broker's contract.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, memory: storetest.NewMemory(localtable.Lanes), broker: newBroker(), log: &logBook{}}
		test(t, w)
		for _, p := range w.relays {
			p.end(t)
		}
		require.Empty(t, w.broker.violations())
		require.Zero(t, w.memory.OpenTransactions())
	})
}

// start runs a relay in a new process.
func (w *world) start(cfg localtable.Config) *process {
	w.t.Helper()
	gate := &gate{}
	conn := &connection{broker: w.broker, gate: gate}
	cfg.Logger = slog.New(w.log)
	m, err := localtable.New(store{w.memory, gate}, conn, cfg)
	require.NoError(w.t, err)
	return w.run(m, gate, conn)
}

func (w *world) run(m *messenger, gate *gate, conns ...*connection) *process {
	ctx, cancel := context.WithCancel(w.t.Context())
	p := &process{messenger: m, gate: gate, stop: cancel, done: make(chan error, 1), conns: conns}
	w.relays = append(w.relays, p)
	go func() { p.done <- m.Run(ctx) }()
	return p
}

// end stops the process and waits for it.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.ends.Do(func() {
		p.gate.open()
		p.stop()
		require.NoError(t, <-p.done)
		for _, conn := range p.conns {
			require.True(t, conn.isClosed())
		}
	})
}

// write commits one transaction with msgs.
func (w *world) write(msgs ...txmsg.Message) {
	w.t.Helper()
	writer := w.writer()
	require.NoError(w.t, publish(w.t.Context(), writer, msgs...))
}

// writer is a messenger that does not relay.
func (w *world) writer() *messenger {
	m, err := localtable.New(w.memory, w.broker, localtable.Config{})
	require.NoError(w.t, err)
	return m
}

func publish(ctx context.Context, m *messenger, msgs ...txmsg.Message) error {
	return m.Transact(ctx, func(ctx context.Context, _ *storetest.Tx, out txmsg.Publisher) error {
		return out.Publish(ctx, msgs...)
	})
}

func of(key string, ids ...string) []txmsg.Message {
	msgs := make([]txmsg.Message, len(ids))
	for i, id := range ids {
		msgs[i] = txmsg.Message{ID: id, Topic: "orders", Key: key, Body: []byte(id)}
	}
	return msgs
}

func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return ids
}

// until lets time pass until ok, at most so long.
func (w *world) until(most time.Duration, ok func() bool) {
	w.t.Helper()
	step := max(most/10_000, time.Millisecond)
	for end := time.Now().Add(most); !ok(); {
		if !time.Now().Before(end) {
			require.FailNow(w.t, "too late", "not within %v; stored %d, status %+v", most, w.broker.distinct(), w.status())
		}
		time.Sleep(step)
	}
	synctest.Wait()
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) status() localtable.Status {
	status, err := w.memory.Status(w.t.Context())
	if err != nil {
		return localtable.Status{}
	}
	status.OldestUnsent, status.Destinations = 0, nil
	return status
}

func (w *world) drained() bool { return reflect.ValueOf(w.status()).IsZero() }

// gate stops a process as SIGSTOP does: what it calls does not go on until it is open again.
type gate struct {
	mu     sync.Mutex
	closed chan struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

// store is the database as a process sees it that may be stopped before a call and before its answer.
type store struct {
	*storetest.Memory
	gate *gate
}

func (s store) Lease(ctx context.Context, owner string, ttl time.Duration) (localtable.Lease, error) {
	s.gate.wait()
	defer s.gate.wait()
	return s.Memory.Lease(context.WithoutCancel(ctx), owner, ttl)
}

func (s store) Read(ctx context.Context, destination string, lanes []localtable.Lane, limit int) ([]localtable.Row, error) {
	s.gate.wait()
	defer s.gate.wait()
	return s.Memory.Read(ctx, destination, lanes, limit)
}

func (s store) Settle(ctx context.Context, settlement localtable.Settlement) (int, error) {
	s.gate.wait()
	defer s.gate.wait()
	return s.Memory.Settle(context.WithoutCancel(ctx), settlement)
}

// connection is the broker as a process sees it.
type connection struct {
	*broker
	gate *gate
	mu   sync.Mutex
	shut int  // times
	used bool // after Close
}

func (c *connection) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	c.gate.wait()
	defer c.gate.wait()
	c.mu.Lock()
	c.used = c.used || c.shut > 0
	c.mu.Unlock()
	return c.broker.Publish(ctx, msgs)
}

func (c *connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut++
	return nil
}

func (c *connection) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shut == 1 && !c.used
}

// logBook keeps the lines of a log.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }

func (l *logBook) Handle(_ context.Context, record slog.Record) error {
	line := record.Level.String() + " " + record.Message
	record.Attrs(func(attr slog.Attr) bool {
		line += " " + attr.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// with counts the lines that hold every text.
func (l *logBook) with(texts ...string) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		holds := true
		for _, text := range texts {
			holds = holds && strings.Contains(line, text)
		}
		if holds {
			count++
		}
	}
	return count
}

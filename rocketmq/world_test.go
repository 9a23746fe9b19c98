package rocketmq

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// patience bounds every wait for what must happen: several rounds of checks.
const patience = 40 * time.Second

// world is one group with its topics on a real broker.
type world struct {
	nameServer string
	group      string
	topics     []string // made beforehand: a messenger must know all topics that it will publish to
	given      int
	mute       atomic.Bool  // settlements of transactions do not reach the broker
	twice      atomic.Bool  // each half is stored twice, as a client that tries again would do
	sending    atomic.Int64 // halves on their way
	unsettled  atomic.Int64 // halves that only a check will settle, or that may exist although nobody knows

	mu      sync.Mutex
	answers map[string][]answer // to checks, by message ID
}

// answer is what one messenger said to a check.
type answer struct {
	messenger string // its name
	state     primitive.LocalTransactionState
	asked     *primitive.MessageExt
	listener  primitive.TransactionListener
	at        time.Time
}

func newWorld(t *testing.T) *world { return newWorldAt(t, services.RocketMQ(t)) }

func newWorldAt(t *testing.T, nameServer string) *world {
	w := &world{nameServer: nameServer, group: "test-" + txmsg.NewID(), answers: map[string][]answer{}}
	for range 2 {
		w.topics = append(w.topics, rocketmqtest.Topic(t, nameServer, 1))
	}
	return w
}

func (w *world) topic(t *testing.T) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Less(t, w.given, len(w.topics), "make more topics beforehand")
	w.given++
	return w.topics[w.given-1]
}

// openMessenger opens a messenger that is shut down when t ends, whether it was run or not.
func openMessenger[Tx any](t *testing.T, w *world, name string, store checker.Store[Tx], change ...func(*Config)) *Messenger[Tx] {
	cfg := Config{NameServers: []string{w.nameServer}, Group: w.group, Topics: w.topics}
	for _, f := range change {
		f(&cfg)
	}
	dial := func(cfg *Config, l primitive.TransactionListener, s producer.QueueSelector) (sender, error) {
		client, err := dialLibrary(cfg, &watchedListener{TransactionListener: l, world: w, name: name}, s)
		return &watchedSender{sender: client, world: w}, err
	}
	m, err := newMessenger(store, cfg, dial, remoting.Missing)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !m.ran.Load() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Run(ctx)
		}
	})
	return m
}

// runMessenger runs m until stop or the end of t.
func runMessenger[Tx any](t *testing.T, m *Messenger[Tx]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// watchedListener notes the answers to checks, and keeps settlements to itself while the world is mute.
type watchedListener struct {
	primitive.TransactionListener
	world *world
	name  string
}

func (l *watchedListener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	state := l.TransactionListener.ExecuteLocalTransaction(m)
	if l.world.mute.Load() {
		return primitive.UnkonwnState
	}
	return state
}

func (l *watchedListener) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	state := l.TransactionListener.CheckLocalTransaction(m)
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	id := m.GetProperty(txmsg.HeaderID)
	l.world.answers[id] = append(l.world.answers[id], answer{l.name, state, m, l.TransactionListener, time.Now()})
	return state
}

type watchedSender struct {
	sender
	world *world
}

func (s *watchedSender) SendMessageInTransaction(ctx context.Context, m *primitive.Message) (*primitive.TransactionSendResult, error) {
	if m.GetProperty(propertyHalf) == "" {
		return s.sender.SendMessageInTransaction(ctx, m)
	}
	s.world.sending.Add(1)
	defer s.world.sending.Add(-1)
	again := primitive.NewMessage(m.Topic, m.Body)
	again.WithProperties(m.GetProperties())
	result, err := s.sender.SendMessageInTransaction(ctx, m)
	if err == nil && s.world.twice.Load() {
		result, err = s.sender.SendMessageInTransaction(ctx, again)
	}
	if err != nil || result.State == primitive.UnkonwnState {
		s.world.unsettled.Add(1)
	}
	return result, err
}

// checks returns the answers to checks about a message so far.
func (w *world) checks(messageID string) []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.answers[messageID])
}

func (w *world) awaitChecks(t *testing.T, messageID string, enough func([]answer) bool) []answer {
	t.Helper()
	require.Eventually(t, func() bool { return enough(w.checks(messageID)) }, patience, 20*time.Millisecond, "checks about %s", messageID)
	return w.checks(messageID)
}

// said counts the answers of a state.
func said(answers []answer, state primitive.LocalTransactionState) (count int) {
	for _, a := range answers {
		if a.state == state {
			count++
		}
	}
	return count
}

// checkCycle is the longest time after which the shared broker has asked about a half, with some to spare: its time-out
// is 1.5 s, and it looks every 2 s.
const checkCycle = 5 * time.Second

// quiesce waits until no half of this process is on its way, and, if some were left to checks, for two rounds of these.
func (w *world) quiesce(ctx context.Context) error {
	for w.sending.Load() > 0 {
		if sleep(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if w.unsettled.Swap(0) > 0 {
		sleep(ctx, 2*checkCycle)
	}
	return ctx.Err()
}

func (w *world) receive(ctx context.Context, t *testing.T, topic string) <-chan txmsg.Delivery {
	out := make(chan txmsg.Delivery)
	in := rocketmqtest.Read(ctx, t, w.nameServer, topic, 1)
	go func() {
		defer close(out)
		for m := range in {
			select {
			case out <- delivery(m):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// inbox collects what arrives on the world's first topic.
type inbox struct {
	world *world

	mu  sync.Mutex
	ids []string
}

func (w *world) inbox(t *testing.T) *inbox {
	in := &inbox{world: w}
	ctx, cancel := context.WithCancel(context.Background())
	deliveries := w.receive(ctx, t, w.topics[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			in.mu.Lock()
			in.ids = append(in.ids, d.Message.ID)
			in.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return in
}

func (in *inbox) got() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.ids)
}

// await waits until each of ids has arrived. What did not comes with the answers to checks about it.
func (in *inbox) await(t *testing.T, ids ...string) {
	t.Helper()
	defer func() {
		if got := in.got(); t.Failed() {
			for _, id := range ids {
				if !slices.Contains(got, id) {
					t.Logf("%s was not delivered; checks:", id)
					for _, a := range in.world.checks(id) {
						t.Logf("  %s %s: %d", a.at.Format(time.TimeOnly), a.messenger, a.state)
					}
				}
			}
		}
	}()
	missing := func() (missing []string) {
		got := in.got()
		for _, id := range ids {
			if !slices.Contains(got, id) {
				missing = append(missing, id)
			}
		}
		return missing
	}
	require.Eventually(t, func() bool { return len(missing()) == 0 }, patience, 10*time.Millisecond, "not delivered")
}

// database is a schema with the library's tables and a table of a service's.
type database struct {
	*postgres.DB
	pool *pgxpool.Pool
	dsn  string
}

func newDatabase(t *testing.T) database {
	dsn := services.Schema(t, services.Postgres(t))
	d := openDatabase(t, dsn)
	require.NoError(t, d.Migrate(t.Context()))
	for _, statement := range []string{
		"CREATE TABLE orders (id text PRIMARY KEY)",
		"CREATE TABLE once (id int CONSTRAINT once_id UNIQUE DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TABLE counter (value int)",
		"INSERT INTO counter VALUES (0)",
		"INSERT INTO once VALUES (1)",
	} {
		_, err := d.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	return d
}

// openDatabase connects without creating anything.
func openDatabase(t *testing.T, dsn string, change ...func(*pgxpool.Config)) database {
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	cfg.MaxConns = 12
	for _, f := range change {
		f(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db, err := postgres.New(pool, postgres.Config{Isolation: pgx.RepeatableRead}) // in which transactions conflict
	require.NoError(t, err)
	return database{db, pool, dsn}
}

func (d database) write(ctx context.Context, tx pgx.Tx, id string) error {
	_, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1)", id)
	return err
}

func (d database) rows(ctx context.Context) ([]string, error) {
	rows, err := d.pool.Query(ctx, "SELECT id FROM orders")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

var errCase = errors.New("the callback's error")

// place is a callback that writes an order and announces it; then it returns err.
func (w *world) place(d database, err error, ids ...string) func(context.Context, pgx.Tx, txmsg.Publisher) error {
	return func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		for _, id := range ids {
			if err := d.write(ctx, tx, id); err != nil {
				return err
			}
			if err := out.Publish(ctx, txmsg.Message{ID: id, Topic: w.topics[0], Key: id, Body: []byte(id)}); err != nil {
				return err
			}
		}
		return err
	}
}

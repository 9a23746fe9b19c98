package integration

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// patience bounds every wait: it is there for failures, and for machines with much else to do.
const patience = time.Minute

type messenger = localtable.Messenger[pgx.Tx]

// shop is a service on PostgreSQL and a broker, seen from outside and inside.
type shop struct {
	dsn    string
	direct *pgxpool.Pool
	broker transport
	topic  string
	log    log
}

func newShop(t *testing.T, server string, broker transport) *shop {
	t.Helper()
	dsn, direct := newSchema(t, server)
	return &shop{dsn: dsn, direct: direct, broker: broker, topic: broker.Create(t)}
}

// store connects to the database as one process does.
func (s *shop) store(t testing.TB, change ...func(*postgres.Config)) *postgres.DB {
	t.Helper()
	var cfg postgres.Config
	for _, f := range change {
		f(&cfg)
	}
	db, err := postgres.New(newPool(t, s.dsn, 12), cfg)
	require.NoError(t, err)
	return db
}

// messenger is one process's messenger. around wraps its broker.
func (s *shop) messenger(t testing.TB, cfg localtable.Config, around ...func(localtable.Broker) localtable.Broker) *messenger {
	t.Helper()
	broker := s.broker.open(t)
	t.Cleanup(func() { _ = broker.Close() }) // of a messenger that nobody runs
	for _, wrap := range around {
		broker = wrap(broker)
	}
	cfg.Logger = s.log.logger()
	m, err := localtable.New(s.store(t), broker, cfg)
	require.NoError(t, err)
	return m
}

// run runs m until stop or the end of t.
func run(t testing.TB, m interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err, "Run after its context ended")
		case <-time.After(patience):
			require.Fail(t, "Run did not return after its context ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

// order is a message whose business row has its ID.
func (s *shop) order(key, body string) txmsg.Message {
	return txmsg.Message{ID: txmsg.NewID(), Topic: s.topic, Key: key, Type: "order.created", Body: []byte(body)}
}

// transact writes msgs and their business rows, and returns what the callback's last act and Transact return.
func transact(ctx context.Context, m txmsg.Messenger[pgx.Tx], result error, msgs ...txmsg.Message) error {
	return m.Transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		for _, msg := range msgs {
			if err := insertOrder(ctx, tx, msg.ID); err != nil {
				return err
			}
		}
		if err := out.Publish(ctx, msgs...); err != nil {
			return err
		}
		return result
	})
}

func (s *shop) commit(t testing.TB, m txmsg.Messenger[pgx.Tx], msgs ...txmsg.Message) {
	t.Helper()
	require.NoError(t, transact(context.Background(), m, nil, msgs...))
}

// fill commits n messages of n keys without a messenger, as another program does.
func (s *shop) fill(t testing.TB, n int) {
	t.Helper()
	_, err := s.direct.Exec(context.Background(), `WITH written AS (
    INSERT INTO txmsg_message (destination, topic, key, body)
    SELECT 'default', $1, 'key-' || n, convert_to(n::text, 'UTF8') FROM generate_series(1, $2) n RETURNING id
) INSERT INTO orders (id) SELECT id FROM written`, s.topic, n)
	require.NoError(t, err)
}

func (s *shop) status(t testing.TB) localtable.Status {
	t.Helper()
	db, err := postgres.New(s.direct, postgres.Config{})
	require.NoError(t, err)
	status, err := db.Status(context.Background())
	require.NoError(t, err)
	return status
}

// awaitDelivered waits until every order but those given has been read from the broker, and requires that nothing else was.
// It returns the messages in the broker's order of each partition, copies and all.
func (s *shop) awaitDelivered(t testing.TB, except ...string) []txmsg.Message {
	t.Helper()
	var read []txmsg.Message
	eventually(t, func() bool {
		rows, err := orders(context.Background(), s.direct)
		require.NoError(t, err)
		read = s.read(t)
		for _, id := range rows {
			if !slices.Contains(except, id) && !slices.ContainsFunc(read, func(m txmsg.Message) bool { return m.ID == id }) {
				return false
			}
		}
		return true
	}, "every order to be delivered")
	rows, err := orders(context.Background(), s.direct)
	require.NoError(t, err)
	committed := map[string]bool{}
	for _, id := range rows {
		committed[id] = true
	}
	for _, m := range read {
		require.True(t, committed[m.ID], "ghost: message %s was not committed", m.ID)
	}
	return read
}

func (s *shop) read(t testing.TB) (all []txmsg.Message) {
	t.Helper()
	for _, d := range s.broker.Read(t, s.topic) {
		require.NoError(t, d.Malformed)
		all = append(all, d.Message)
	}
	return all
}

// awaitDrained waits until the local table holds nothing.
func (s *shop) awaitDrained(t testing.TB) {
	t.Helper()
	for range 3 { // Status counts in several steps, between which a row can move
		eventually(t, func() bool {
			status := s.status(t)
			return status.Ready+status.Waiting+status.Retry+status.Parked+status.Dead == 0
		}, "the local table to be empty")
	}
}

// spent counts delivered messages that needed more than one attempt.
func (s *shop) spent(t testing.TB) (n int) {
	t.Helper()
	require.NoError(t, s.direct.QueryRow(context.Background(), "SELECT count(*) FROM txmsg_delivered WHERE attempts > 0").Scan(&n))
	return n
}

func copies(all []txmsg.Message) map[string]int {
	n := map[string]int{}
	for _, m := range all {
		n[m.ID]++
	}
	return n
}

// firstCopies returns the bodies of a key's messages, each as it came first.
func firstCopies(all []txmsg.Message, key string) (bodies []string) {
	seen := map[string]bool{}
	for _, m := range all {
		if m.Key == key && !seen[m.ID] {
			seen[m.ID] = true
			bodies = append(bodies, string(m.Body))
		}
	}
	return bodies
}

func eventually(t testing.TB, done func() bool, what string) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}

// log keeps what the library logs.
type log struct{ services.Log }

func (l *log) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines returns those that hold every one of words.
func (l *log) lines(words ...string) (found []string) {
	for line := range strings.SplitSeq(l.String(), "\n") {
		if line != "" && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found
}

// named adds an application's name to a DSN, to find its sessions by.
func named(t testing.TB, dsn, name string) string {
	t.Helper()
	parsed, err := url.Parse(dsn)
	require.NoError(t, err)
	query := parsed.Query()
	query.Set("application_name", name)
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// refusingBroker refuses messages as refuses says, and counts what it is asked.
type refusingBroker struct {
	localtable.Broker
	refuses func(m txmsg.Message, time int) error // the time-th; nil passes the message on

	mu    sync.Mutex
	asked map[string]int
}

func pick(refuses func(m txmsg.Message, time int) error) func(localtable.Broker) localtable.Broker {
	return func(b localtable.Broker) localtable.Broker {
		return &refusingBroker{Broker: b, refuses: refuses, asked: map[string]int{}}
	}
}

func (p *refusingBroker) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	var passed []txmsg.Message
	var places []int
	for i, m := range msgs {
		p.mu.Lock()
		p.asked[m.ID]++
		time := p.asked[m.ID]
		p.mu.Unlock()
		if results[i] = p.refuses(m, time); results[i] == nil {
			passed, places = append(passed, m), append(places, i)
		}
	}
	if len(passed) > 0 {
		for i, err := range p.Broker.Publish(ctx, passed) {
			results[places[i]] = err
		}
	}
	return results
}

var errNotNow = fmt.Errorf("not now: %w", txmsg.ErrRefused)

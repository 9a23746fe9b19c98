package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestRelayCases(t *testing.T) {
	t.Parallel()
	server, kafka := services.Postgres(t), onKafka(t)
	test := beside(t, func(t *testing.T) *shop { return newShop(t, server, kafka) })
	test("C20 five relays send ten thousand rows once each", testFiveRelays)
	test("C24 a refused message holds back its key and no other", testHeldKey)
	test("C26 no transaction is open while one topic hangs, and the other drains", testHangingTopic)
	t.Run("C23 rows are sent once though polls come while the broker works", testSlowBroker)
	t.Run("C26 no transaction is open while the broker does not answer", testSilentBroker)
}

func testFiveRelays(t *testing.T, s *shop) {
	const rows = 10_000
	s.fill(t, rows)
	var relays []*messenger
	for range 5 {
		relays = append(relays, s.messenger(t, localtable.Config{}))
	}
	for _, m := range relays {
		run(t, m)
	}
	s.awaitDrained(t)
	read := s.awaitDelivered(t)
	require.Len(t, read, rows, "records")
	require.Len(t, copies(read), rows, "ids")
}

func testSlowBroker(t *testing.T) {
	t.Parallel()
	const publishes = 500
	url := services.NATS(t)
	proxy := services.NewProxy(t, url)
	s := newShop(t, services.Postgres(t), natsAt(url))
	proxy.Delay(300 * time.Millisecond)
	s.broker = transport{Broker: s.broker.Broker, open: natsAt(proxy.Replace(url)).open}
	m := s.messenger(t, localtable.Config{PollInterval: 50 * time.Millisecond})
	run(t, m)
	var all sync.WaitGroup
	errs := make(chan error, publishes)
	for worker := range 10 {
		all.Go(func() {
			for n := range publishes / 10 {
				errs <- transact(context.Background(), m, nil, s.order(fmt.Sprintf("key-%d-%d", worker, n%7), "body"))
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	s.awaitDrained(t)
	read := s.awaitDelivered(t)
	require.Len(t, read, publishes, "records")
	require.Len(t, copies(read), publishes, "ids")
}

func testHeldKey(t *testing.T, s *shop) {
	a, b, c, d := s.order("k1", "A"), s.order("k1", "B"), s.order("k1", "C"), s.order("k2", "D")
	sent := make(chan string, 10)
	m := s.messenger(t, localtable.Config{}, pick(func(m txmsg.Message, time int) error {
		if m.ID == a.ID && time <= 2 {
			return errNotNow
		}
		sent <- string(m.Body)
		return nil
	}))
	s.commit(t, m, a, b, c, d)
	run(t, m)
	s.awaitDrained(t)
	require.Equal(t, []string{"A", "B", "C"}, firstCopies(s.awaitDelivered(t), "k1"))
	require.Equal(t, "D", <-sent, "the first message that was not refused")
}

// testUnsendable measures, more exactly where time is made up: beside the relay.
func testUnsendable(t *testing.T) {
	const attempts = 3
	s := newShop(t, services.Postgres(t), onKafka(t))
	bad := s.order("bad", "bad")
	var mu sync.Mutex
	asked := 0
	m := s.messenger(t, localtable.Config{MaxAttempts: attempts}, pick(func(m txmsg.Message, _ int) error {
		if m.ID != bad.ID {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		asked++
		return errNotNow
	}))
	s.commit(t, m, bad)
	s.fill(t, 999)
	begin := time.Now()
	run(t, m)
	require.Len(t, copies(s.awaitDelivered(t, bad.ID)), 999)
	require.Less(t, time.Since(begin), 10*time.Second, "time for the others")
	eventually(t, func() bool { return s.status(t).Dead == 1 }, "the bad row to be dead")
	s.commit(t, m, s.order("after", "after"))
	require.Len(t, copies(s.awaitDelivered(t, bad.ID)), 1000)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, attempts, asked, "how often the broker was asked for the bad row")
	require.Len(t, s.log.lines(bad.ID), attempts, "log lines about it")
}

// hanging is a broker that does not answer for one topic: it returns after its time with an outage.
type hanging struct {
	localtable.Broker
	topic string
	entry chan struct{}
}

func (h *hanging) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	var passed []txmsg.Message
	var places []int
	for i, m := range msgs {
		if m.Topic != h.topic {
			passed, places = append(passed, m), append(places, i)
		}
	}
	if len(passed) > 0 {
		for i, err := range h.Broker.Publish(ctx, passed) {
			results[places[i]] = err
		}
	}
	if len(passed) == len(msgs) {
		return results
	}
	select {
	case h.entry <- struct{}{}:
	default:
	}
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
	}
	for i, m := range msgs {
		if m.Topic == h.topic {
			results[i] = fmt.Errorf("no answer: %w", txmsg.ErrOutage)
		}
	}
	return results
}

func testHangingTopic(t *testing.T, s *shop) {
	hang := s.broker.Create(t)
	name := "relay-" + txmsg.NewID()
	s.dsn = named(t, s.dsn, name)
	entry := make(chan struct{}, 1)
	around := func(b localtable.Broker) localtable.Broker { return &hanging{Broker: b, topic: hang, entry: entry} }
	first, second := s.messenger(t, localtable.Config{}, around), s.messenger(t, localtable.Config{}, around)
	var ids []string
	for n := range 100 {
		m := s.order(fmt.Sprint("key-", n), "body")
		if n%2 == 0 {
			m.Topic = hang
			ids = append(ids, m.ID)
		}
		s.commit(t, first, m)
	}
	run(t, first)
	run(t, second)
	<-entry
	stop := s.watchIdle(t, name)
	s.awaitDelivered(t, ids...)
	<-entry
	require.Empty(t, stop(), "sessions that were idle in a transaction for over a second")
	require.Equal(t, int64(50), s.status(t).Ready, "rows of the topic that hangs: an outage changes none")
	require.Empty(t, s.broker.Read(t, hang))
}

func testSilentBroker(t *testing.T) {
	t.Parallel()
	url := services.NATS(t)
	proxy := services.NewProxy(t, url)
	s := newShop(t, services.Postgres(t), natsAt(url))
	name := "relay-" + txmsg.NewID()
	s.dsn = named(t, s.dsn, name)
	s.broker = transport{Broker: s.broker.Broker, open: natsAt(proxy.Replace(url)).open}
	m := s.messenger(t, localtable.Config{})
	stopRelay := run(t, m)
	s.commit(t, m, s.order("", "before"))
	s.awaitDelivered(t)
	proxy.SwallowReplies()
	for n := range 100 {
		s.commit(t, m, s.order(fmt.Sprint("key-", n%10), "body"))
	}
	stop := s.watchIdle(t, name)
	eventually(t, func() bool { return !m.Health().Destinations[0].OutageSince.IsZero() }, "the relay to see the outage")
	require.Empty(t, stop(), "sessions that were idle in a transaction for over a second")
	proxy.Restore()
	s.awaitDrained(t)
	require.Len(t, copies(s.awaitDelivered(t)), 101)
	require.Zero(t, s.spent(t), "messages that an outage cost an attempt")
	stopRelay()
}

// watchIdle looks for sessions of an application that stay idle in a transaction, until stop, which returns what it saw.
func (s *shop) watchIdle(t *testing.T, name string) (stop func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan []string, 1)
	go func() {
		var all []string
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			rows, _ := s.direct.Query(ctx, `SELECT pid::text || ' ' || left(query, 60) FROM pg_stat_activity
WHERE application_name = $1 AND state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > interval '1 second'`, name)
			found, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil && ctx.Err() == nil {
				found = append(found, err.Error())
			}
			all = append(all, found...)
			select {
			case <-tick.C:
			case <-ctx.Done():
				seen <- slices.Compact(all)
				return
			}
		}
	}()
	return func() []string {
		cancel()
		return <-seen
	}
}

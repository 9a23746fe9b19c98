package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestConsumerCases(t *testing.T) {
	t.Parallel()
	server, address := services.Postgres(t), services.Kafka(t)
	test := beside(t, func(t *testing.T) *counter { return newCounter(t, server, address) })
	test("C50 eight copies on two nodes take effect once", testCopies)
	test("C54 a message whose handler panics is buried with its stack, and can be replayed", testPanic)
	test("C63 fifty handlers under way finish, and what they published is kept", testStop)
	test("C64 a handler that ignores its context is left behind in time, and its message comes again", testAbandon)
}

// counter is a shop that consumes its own topic and answers on another one.
type counter struct {
	*shop
	address string
	group   string
	out     string
}

func newCounter(t *testing.T, server, address string) *counter {
	t.Helper()
	c := &counter{shop: newShop(t, server, kafkaAt(address)), address: address, group: "group-" + txmsg.NewID()}
	c.out = c.broker.Create(t)
	_, err := c.direct.Exec(t.Context(), "CREATE TABLE account (balance int NOT NULL); INSERT INTO account VALUES (0)")
	require.NoError(t, err)
	return c
}

// node is one process: messenger and consumer on one database.
type node struct {
	messenger *messenger
	consumer  *consumer.Consumer[pgx.Tx]
}

// node makes a process; around wraps the broker of its messenger.
func (c *counter) node(t *testing.T, handler consumer.Handler[pgx.Tx], cfg consumer.Config, around ...func(localtable.Broker) localtable.Broker) node {
	t.Helper()
	db, err := postgres.New(newPool(t, c.dsn, 64), postgres.Config{})
	require.NoError(t, err)
	broker := c.broker.open(t)
	for _, wrap := range around {
		broker = wrap(broker)
	}
	m, err := localtable.New(db, broker, localtable.Config{Logger: c.log.logger()})
	require.NoError(t, err)
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: []string{c.address}, Group: c.group, Topics: []string{c.topic}, Concurrency: 64, CommitInterval: 100 * time.Millisecond,
		Logger: c.log.logger(),
	})
	require.NoError(t, err)
	cfg.Name, cfg.Logger = "counter", c.log.logger()
	consuming, err := consumer.New(m, db, subscriber, handler, cfg)
	require.NoError(t, err)
	return node{m, consuming}
}

// add is the work of a handler: it changes the balance and publishes.
func (c *counter) add(ctx context.Context, tx pgx.Tx, msg txmsg.Message, out txmsg.Publisher) error {
	if _, err := tx.Exec(ctx, "UPDATE account SET balance = balance + 10"); err != nil {
		return err
	}
	return out.Publish(ctx, txmsg.Message{Topic: c.out, Key: msg.ID, Type: "account.changed"})
}

func (c *counter) balance(t *testing.T) (balance int) {
	t.Helper()
	require.NoError(t, c.direct.QueryRow(context.Background(), "SELECT balance FROM account").Scan(&balance))
	return balance
}

// produce writes messages into the broker itself, over all partitions.
func (c *counter) produce(t *testing.T, msgs ...txmsg.Message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	for i, m := range msgs {
		record := &kgo.Record{Topic: c.topic, Partition: int32(i % topic.Partitions), Value: m.Body}
		for name, value := range txmsg.ToWire(m) {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		require.NoError(t, client.ProduceSync(t.Context(), record).FirstErr())
	}
}

// acknowledged returns how many messages the group is past.
func (c *counter) acknowledged(t *testing.T) (n int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.address))
	require.NoError(t, err)
	defer client.Close()
	offsets, err := kadm.NewClient(client).FetchOffsets(t.Context(), c.group)
	require.NoError(t, err)
	offsets.Each(func(o kadm.OffsetResponse) { n += max(0, o.At) })
	return n
}

func (c *counter) plain(body string) txmsg.Message {
	return txmsg.Message{ID: txmsg.NewID(), Topic: c.topic, Body: []byte(body)}
}

func testCopies(t *testing.T, c *counter) {
	const copies = 8
	m := c.plain("pay")
	c.produce(t, m, m, m, m, m, m, m, m)
	for range 2 {
		n := c.node(t, func(ctx context.Context, tx pgx.Tx, msg txmsg.Message, out txmsg.Publisher) error {
			pause(200 * time.Millisecond)
			return c.add(ctx, tx, msg, out)
		}, consumer.Config{})
		run(t, n.messenger)
		run(t, n.consumer)
	}
	eventually(t, func() bool { return c.acknowledged(t) == copies }, "eight acknowledgements")
	c.awaitDrained(t)
	require.Equal(t, 10, c.balance(t))
	require.Len(t, c.broker.Read(t, c.out), 1, "outgoing messages")
	require.Empty(t, c.log.lines("level=ERROR"))
	require.Empty(t, c.log.lines("level=WARN"))
}

func testPanic(t *testing.T, c *counter) {
	const attempts = 3
	var msgs []txmsg.Message
	for n := range 10 {
		msgs = append(msgs, c.plain(fmt.Sprint(n)))
	}
	bad := msgs[4]
	var broken atomic.Bool
	var runs atomic.Int64
	broken.Store(true)
	n := c.node(t, func(ctx context.Context, tx pgx.Tx, msg txmsg.Message, out txmsg.Publisher) error {
		if err := c.add(ctx, tx, msg, out); err != nil {
			return err
		}
		if msg.ID == bad.ID && broken.Load() {
			runs.Add(1)
			var nobody *txmsg.Message
			_ = nobody.Body
		}
		return nil
	}, consumer.Config{Attempts: attempts, BackoffMin: 10 * time.Millisecond})
	c.produce(t, msgs...)
	run(t, n.messenger)
	run(t, n.consumer)
	eventually(t, func() bool { return c.acknowledged(t) == 10 }, "ten acknowledgements")
	require.Equal(t, 90, c.balance(t))
	require.EqualValues(t, attempts, runs.Load())

	var spent int
	var stack string
	require.NoError(t, c.direct.QueryRow(t.Context(),
		"SELECT attempts, errors[array_upper(errors, 1)] FROM txmsg_dead_letter WHERE message_id = $1", bad.ID).Scan(&spent, &stack))
	require.Equal(t, attempts, spent)
	require.Contains(t, stack, "nil pointer dereference")
	require.Contains(t, stack, "cases_consumer_test.go", "the place of the panic")

	broken.Store(false)
	c.produce(t, bad) // a replay
	eventually(t, func() bool { return c.balance(t) == 100 }, "the replay to take effect: the inbox does not know the message")
	c.awaitDrained(t)
	require.Len(t, c.broker.Read(t, c.out), 10)
}

func testStop(t *testing.T, c *counter) {
	const handlers = 50
	var begun sync.WaitGroup
	begun.Add(handlers)
	n := c.node(t, func(ctx context.Context, tx pgx.Tx, msg txmsg.Message, out txmsg.Publisher) error {
		begun.Done()
		pause(2 * time.Second)
		return c.add(ctx, tx, msg, out)
	}, consumer.Config{})
	var msgs []txmsg.Message
	for i := range handlers {
		msgs = append(msgs, c.plain(fmt.Sprint(i)))
	}
	c.produce(t, msgs...)
	stopMessenger := run(t, n.messenger)
	stopConsumer := run(t, n.consumer)
	begun.Wait()
	begin := time.Now()
	stopConsumer()
	stopMessenger()
	require.Less(t, time.Since(begin), 10*time.Second, "time to stop")
	require.Equal(t, 10*handlers, c.balance(t))
	require.EqualValues(t, handlers, c.acknowledged(t))
	status := c.status(t)
	require.Len(t, c.broker.Read(t, c.out), handlers-int(status.Ready+status.Retry+status.Parked), "messages that were sent")
	var held int
	require.NoError(t, c.direct.QueryRow(t.Context(), "SELECT count(*) FROM txmsg_lane WHERE owner IS NOT NULL").Scan(&held))
	require.Zero(t, held, "lanes that are still held")
	require.Empty(t, c.log.lines("closed"))
}

func testAbandon(t *testing.T, c *counter) {
	entered, release := make(chan struct{}), make(chan struct{})
	first := c.node(t, func(ctx context.Context, tx pgx.Tx, msg txmsg.Message, out txmsg.Publisher) error {
		close(entered)
		<-release // whatever becomes of ctx
		return c.add(context.WithoutCancel(ctx), tx, msg, out)
	}, consumer.Config{DrainTimeout: 3 * time.Second})
	m := c.plain("stuck")
	c.produce(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- first.consumer.Run(ctx) }()
	<-entered
	begin := time.Now()
	cancel()
	var abandoned *consumer.AbandonedError
	require.ErrorAs(t, <-ended, &abandoned)
	require.Less(t, time.Since(begin), 10*time.Second, "time to stop; the half second is measured beside the consumer, where time is made up")
	require.Equal(t, []string{m.ID}, abandoned.MessageIDs)
	close(release)

	second := c.node(t, c.add, consumer.Config{})
	run(t, second.messenger)
	run(t, second.consumer)
	eventually(t, func() bool { return c.acknowledged(t) == 1 }, "the message to come again")
	c.awaitDrained(t)
	require.Equal(t, 10, c.balance(t))
	require.Len(t, c.broker.Read(t, c.out), 1)
}

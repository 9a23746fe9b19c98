package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestRetentionCases(t *testing.T) {
	t.Parallel()
	t.Run("C34 clean-up removes what was sent long enough ago, and neither what is unsent nor what is being sent", testCleanUp)
	t.Run("C35 message table, archive and inbox are empty again when the retention is over", testEmptied)
}

func testCleanUp(t *testing.T) {
	t.Parallel()
	const each = 10 // rows
	ctx := context.Background()
	s := newShop(t, services.Postgres(t), onKafka(t))
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := s.direct.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	count := func(from string) (n int) {
		t.Helper()
		require.NoError(t, s.direct.QueryRow(ctx, "SELECT count(*) FROM "+from).Scan(&n))
		return n
	}
	s.fill(t, 2*each)
	entry := make(chan struct{}, 1)
	hang := s.broker.Create(t)
	m := s.messenger(t, localtable.Config{Retention: new(1000 * time.Hour)}, func(b localtable.Broker) localtable.Broker {
		return &hanging{Broker: b, topic: hang, entry: entry}
	})
	run(t, m)
	s.awaitDrained(t)
	exec(`UPDATE txmsg_delivered SET delivered_at = delivered_at - interval '1 minute'`)
	exec(`UPDATE txmsg_delivered SET delivered_at = delivered_at - interval '2 h' WHERE seq IN (SELECT seq FROM txmsg_delivered ORDER BY seq LIMIT $1)`, each)

	exec(`INSERT INTO txmsg_message (destination, topic, key, body) SELECT 'default', $1, 'hung-' || n, 'x' FROM generate_series(1, $2) n`, hang, each)
	exec(`INSERT INTO txmsg_message (destination, topic, key, body) SELECT 'nobody', $1, 'unsent-' || n, 'x' FROM generate_series(1, $2) n`, hang, each)
	for _, state := range []string{"waiting", "retry", "parked", "dead"} {
		exec(`INSERT INTO txmsg_held (destination, topic, key, body, state, due_at, delayed, holds)
			SELECT 'nobody', $1, $2 || n, 'x', $2, clock_timestamp() - interval '1 h', $2 = 'waiting', $2 IN ('retry', 'dead') FROM generate_series(1, $3) n`, hang, state, each)
	}
	for _, table := range []string{"txmsg_ready", "txmsg_held", "txmsg_delivered"} {
		exec(`UPDATE ` + table + ` SET created_at = created_at - interval '2 h'`)
	}
	m.Wake()
	<-entry // their batch is under way
	before := s.status(t)
	pruned, err := s.store(t).PruneMessages(ctx, time.Hour, 1000)
	require.NoError(t, err)
	require.Equal(t, each, pruned)
	require.Equal(t, each, count("txmsg_delivered WHERE delivered_at > clock_timestamp() - interval '1 h'"), "rows that were sent a minute ago")
	require.Equal(t, each, count("txmsg_delivered"))
	after := s.status(t)
	before.OldestUnsent, after.OldestUnsent, before.OldestSnapshot, after.OldestSnapshot = 0, 0, 0, 0
	before.Destinations, after.Destinations = nil, nil
	require.Equal(t, localtable.Status{Ready: 2 * each, Waiting: each, Retry: each, Parked: each, Dead: each}, after)
	require.Equal(t, before, after)
}

func testEmptied(t *testing.T) {
	t.Parallel()
	const messages = 1000
	ctx := context.Background()
	c := newCounter(t, services.Postgres(t), services.Kafka(t))
	db := c.store(t)
	m, err := localtable.New(db, c.broker.open(t), localtable.Config{Retention: new(time.Minute), Logger: c.log.logger()})
	require.NoError(t, err)
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: []string{c.address}, Group: c.group, Topics: []string{c.topic}, CommitInterval: 100 * time.Millisecond})
	require.NoError(t, err)
	name := "emptied-" + txmsg.NewID()
	consuming, err := consumer.New(m, db, subscriber, c.add, consumer.Config{Name: name, Retention: time.Hour, PruneInterval: 5 * time.Second})
	require.NoError(t, err)
	run(t, m)
	run(t, consuming)
	c.fill(t, messages)
	eventually(t, func() bool { return c.acknowledged(t) == messages }, "all messages to be consumed")
	c.awaitDrained(t)
	count := func(table string) (n int) {
		t.Helper()
		require.NoError(t, c.direct.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
		return n
	}
	require.Equal(t, 10*messages, c.balance(t))
	require.Equal(t, 2*messages, count("txmsg_delivered"), "messages, and those that their handler published")
	require.Equal(t, messages, count("txmsg_inbox"))

	for _, sql := range []string{
		"UPDATE txmsg_delivered SET delivered_at = delivered_at - interval '1 minute'",
		"UPDATE txmsg_inbox SET seen_at = seen_at - interval '1 h'",
	} {
		_, err := c.direct.Exec(ctx, sql)
		require.NoError(t, err)
	}
	eventually(t, func() bool { return count("txmsg_delivered") == 0 && count("txmsg_inbox") == 0 }, "archive and inbox to be empty")
	require.Zero(t, count("txmsg_ready"))
	require.Zero(t, count("txmsg_held"))
	// No other test of this binary keeps messages for less than a day.
	eventually(t, func() bool { return counted(t, "txmsg.localtable.pruned", "") == 2*messages }, "the metric of the message table")
	eventually(t, func() bool { return counted(t, "txmsg.inbox.pruned", name) == messages }, "the metric of the inbox")
}

// counted returns the value of a counter whose labels have this value; "" for any.
func counted(t *testing.T, name, label string) (sum int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, metrics.Collect(context.Background(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != name || !ok {
				continue
			}
			for _, point := range data.DataPoints {
				matches := label == ""
				for _, attribute := range point.Attributes.ToSlice() {
					matches = matches || attribute.Value.AsString() == label
				}
				if matches {
					sum += point.Value
				}
			}
		}
	}
	return sum
}

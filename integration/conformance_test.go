package integration

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

// The suite of the RocketMQ backend stands in its package, which can count the halves that a check must decide.

func TestConformanceLocalTablePostgresKafka(t *testing.T) { conform(t, openPostgres, onKafka(t)) }
func TestConformanceLocalTablePostgresNATS(t *testing.T)  { conform(t, openPostgres, onNATS(t)) }
func TestConformanceLocalTablePostgresBoth(t *testing.T)  { conform(t, openPostgres, onBoth(t)) }
func TestConformanceLocalTableSQLiteKafka(t *testing.T)   { conform(t, openSQLite, onKafka(t)) }
func TestConformanceLocalTableSQLiteNATS(t *testing.T)    { conform(t, openSQLite, onNATS(t)) }

// transport is a broker as the suite sees it: the server, and how the library connects to it.
type transport struct {
	topic.Broker
	open   func(t testing.TB) localtable.Broker
	routes func(t testing.TB) []localtable.Route // instead of open, where topics are divided
}

func onKafka(t testing.TB) transport { return kafkaAt(services.Kafka(t)) }
func onNATS(t testing.TB) transport  { return natsAt(services.NATS(t)) }

func kafkaAt(address string) transport {
	return transport{Broker: topic.Kafka(address), open: func(t testing.TB) localtable.Broker {
		broker, err := kafka.Open(context.Background(), kafka.Config{Brokers: []string{address}, PublishTimeout: 5 * time.Second})
		require.NoError(t, err)
		return broker
	}}
}

func natsAt(url string) transport {
	return transport{Broker: topic.NATS(url), open: func(t testing.TB) localtable.Broker {
		broker, err := nats.Open(context.Background(), nats.Config{URLs: []string{url}, PublishTimeout: 5 * time.Second})
		require.NoError(t, err)
		return broker
	}}
}

// base is one empty database with a business table.
type base[Tx any] struct {
	// store connects anew, with at most so many connections.
	store  func(t *testing.T, connections int) localtable.Store[Tx]
	write  func(ctx context.Context, tx Tx, id string) error
	rows   func(ctx context.Context) ([]string, error)
	nested func(ctx context.Context, tx Tx, out txmsg.Publisher, fn func(ctx context.Context, tx Tx) error) error
	hooks  txmsgtest.Hooks[Tx]
}

// connections is enough for the suite's 16 workers and the relay.
const connections = 24

func conform[Tx any](t *testing.T, open func(t *testing.T) base[Tx], broker transport) {
	_, single := any(*new(Tx)).(*sql.Tx)
	txmsgtest.Run(t, txmsgtest.Harness[Tx]{
		Open:         func(t *testing.T) txmsgtest.Bundle[Tx] { return bundle(open(t), broker) },
		Abilities:    txmsg.Abilities{Order: true, Delay: true},
		SingleWriter: single,
		Wait:         time.Minute,
		// The test's own proxy leaves it behind when it is stopped in the moment in which it starts.
		Leaks: []goleak.Option{goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*Proxy).freeBlocker")},
	})
}

func bundle[Tx any](b base[Tx], broker transport) txmsgtest.Bundle[Tx] {
	silence := &silence{told: map[string]bool{}}
	messenger := func(t *testing.T, connections int) txmsg.Messenger[Tx] {
		t.Helper()
		wrap := func(opened localtable.Broker) localtable.Broker {
			t.Cleanup(func() { require.NoError(t, opened.Close()) }) // of a messenger that nobody runs
			return &silent{Broker: opened, silence: silence}
		}
		var m *localtable.Messenger[Tx]
		var err error
		if store := b.store(t, connections); broker.routes == nil {
			m, err = localtable.New(store, wrap(broker.open(t)), localtable.Config{})
		} else {
			routes := broker.routes(t)
			for i := range routes {
				routes[i].Broker = wrap(routes[i].Broker)
			}
			m, err = localtable.NewRouted(store, routes, localtable.Config{})
		}
		require.NoError(t, err)
		return m
	}
	hooks := b.hooks
	hooks.Redeliver = func(*testing.T) { silence.begin() }
	hooks.Pooled = messenger
	return txmsgtest.Bundle[Tx]{
		Messenger: func(t *testing.T) txmsg.Messenger[Tx] { return messenger(t, connections) },
		Write:     b.write,
		Rows:      b.rows,
		Nested:    b.nested,
		Topic:     func(t *testing.T) string { return broker.Create(t) },
		Receive: func(ctx context.Context, t *testing.T, name string) <-chan txmsg.Delivery {
			return broker.Follow(ctx, t, name)
		},
		Hooks: hooks,
	}
}

// silence takes away the broker's first answer for each message, once it has begun.
type silence struct {
	mu    sync.Mutex
	begun bool
	told  map[string]bool
}

func (s *silence) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

func (s *silence) takes(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || s.told[id] {
		return false
	}
	s.told[id] = true
	return true
}

// silent is a broker whose answers get lost: the message is stored, and the relay must send it again.
type silent struct {
	localtable.Broker
	silence *silence
}

func (s *silent) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := s.Broker.Publish(ctx, msgs)
	for i, m := range msgs {
		if results[i] == nil && s.silence.takes(m.ID) {
			results[i] = fmt.Errorf("answer lost: %w", txmsg.ErrOutage)
		}
	}
	return results
}

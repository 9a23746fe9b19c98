package localtable

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Messenger is the local table's [txmsg.Messenger]. It can write without Run, in a process that leaves the relaying to
// others; such a process closes the brokers itself.
type Messenger[Tx any] struct {
	store        Store[Tx]
	destinations destinations
	relay        *relay[Tx]
	others       *notifier
	running      atomic.Bool
}

// New makes a messenger from a store and a broker that gets every topic. It talks to neither.
func New[Tx any](store Store[Tx], broker Broker, cfg Config) (*Messenger[Tx], error) {
	cfg.setDefaults()
	problems := cfg.validate()
	if broker == nil {
		problems = errors.Join(problems, errors.New("localtable: broker must not be nil"))
	}
	routes := []Route{{Destination: cfg.Destination, Topics: []string{"*"}, Broker: broker}}
	return newMessenger(store, routes, cfg, problems)
}

// NewRouted makes a messenger from a store and routes that divide the topics among brokers. It talks to none of them. A topic
// that no route takes is refused with [txmsg.ErrNoRoute] by Publish and Enqueue. Config.Destination must be empty. A broker
// that does not answer delays the messages of its own destination and no others.
//
// All relays of one table should have the same destinations: they share out the keys, and rows of a destination that a
// relay does not have wait: see Health.Unrouted.
func NewRouted[Tx any](store Store[Tx], routes []Route, cfg Config) (*Messenger[Tx], error) {
	problems := validateRoutes(routes, cfg)
	for i, route := range routes {
		if route.Broker == nil {
			problems = errors.Join(problems, fmt.Errorf("localtable: Route[%d].Broker must be set, got nil", i))
		}
	}
	cfg.setDefaults()
	return newMessenger(store, routes, cfg, errors.Join(problems, cfg.validate()))
}

func newMessenger[Tx any](store Store[Tx], routes []Route, cfg Config, problems error) (*Messenger[Tx], error) {
	if store == nil {
		problems = errors.Join(problems, errors.New("localtable: store must not be nil"))
	}
	if problems != nil {
		return nil, problems
	}
	instruments, err := newInstruments()
	if err != nil {
		return nil, fmt.Errorf("localtable: make metrics: %w", err)
	}
	destinations := newDestinations(routes, cfg, instruments)
	relay := newRelay(store, destinations, cfg, instruments)
	return &Messenger[Tx]{store: store, destinations: destinations, relay: relay, others: relay.notifier()}, nil
}

// Transact implements [txmsg.Messenger].
func (m *Messenger[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) error {
	cfg := txmsg.TransactConfig{Abilities: m.Abilities(), Check: m.destinations.check}
	start := func(tx txmsg.Transaction[Tx]) txmsg.Attempt { return &attempt[Tx]{messenger: m, tx: tx} }
	return txmsg.Transact(ctx, m.store, cfg, start, fn)
}

// Enqueue writes msgs in tx, a transaction that the caller owns: they are delivered if it commits. It checks them as Publish
// does, and an error writes none of them; an error of the database may have spoilt tx. The relay sees them by its
// next poll, or at once if the caller calls Wake after the commit. A program that uses it cannot switch to another backend.
func (m *Messenger[Tx]) Enqueue(ctx context.Context, tx Tx, msgs ...txmsg.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	written := make([]txmsg.Message, len(msgs))
	for i, msg := range msgs {
		msg = msg.Clone()
		if msg.ID == "" {
			msg.ID = txmsg.NewID()
		}
		txmsg.InjectTrace(ctx, &msg)
		if err := msg.Validate(); err != nil {
			return err
		}
		if err := m.destinations.check(msg); err != nil {
			return err
		}
		written[i] = msg
	}
	statements, err := m.insert(written)
	if err != nil {
		return err
	}
	if err := m.store.Exec(ctx, tx, statements...); err != nil {
		return fmt.Errorf("localtable: enqueue: %w", err)
	}
	return nil
}

func (m *Messenger[Tx]) insert(msgs []txmsg.Message) ([]txmsg.Statement, error) {
	entries, err := m.destinations.entries(msgs)
	if err != nil {
		return nil, err
	}
	return m.store.Insert(entries), nil
}

// Wake tells the relays of this and of other processes that rows have been committed. Transact does it by itself. It
// never blocks: others are told from a goroutine that ends within two seconds, at most once in a few milliseconds. What a
// process does not live to tell is found by polling.
func (m *Messenger[Tx]) Wake() {
	m.destinations.wakeUp()
	m.others.committed()
}

// Run relays until ctx ends; then it sends no more, records what the brokers have accepted within Config.DrainTimeout, gives
// its lanes to the other relays and closes the brokers. It implements [txmsg.Messenger].
func (m *Messenger[Tx]) Run(ctx context.Context) error {
	if m.running.Swap(true) {
		return errors.New("localtable: Run called twice")
	}
	return m.relay.run(ctx)
}

// Abilities implements [txmsg.Messenger]: order by key, and delay.
func (m *Messenger[Tx]) Abilities() txmsg.Abilities { return txmsg.Abilities{Order: true, Delay: true} }

// Health returns what the relay of this process knows, without asking anybody.
func (m *Messenger[Tx]) Health() Health { return m.relay.health() }

package localtable

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Messenger is the local table's [txmsg.Messenger]. It can write without Run, in a process that leaves the relaying to
// others; such a process closes the broker itself.
type Messenger[Tx any] struct {
	store   Store[Tx]
	broker  Broker
	cfg     Config
	meter   *meter
	relay   *relay[Tx]
	running atomic.Bool
}

// New makes a messenger from a store and a broker. It talks to neither.
func New[Tx any](store Store[Tx], broker Broker, cfg Config) (*Messenger[Tx], error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	meter, err := newMeter(cfg.Destination, cfg.Topics)
	if err != nil {
		return nil, fmt.Errorf("localtable: make metrics: %w", err)
	}
	m := &Messenger[Tx]{store: store, broker: broker, cfg: cfg, meter: meter}
	m.relay = newRelay(store, broker, cfg, meter)
	return m, nil
}

// Transact implements [txmsg.Messenger].
func (m *Messenger[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) error {
	cfg := txmsg.TransactConfig{Abilities: m.Abilities(), Check: m.broker.Check}
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
		if err := m.broker.Check(msg); err != nil {
			return err
		}
		written[i] = msg
	}
	if err := m.store.Exec(ctx, tx, m.insert(written)...); err != nil {
		return fmt.Errorf("localtable: enqueue: %w", err)
	}
	return nil
}

func (m *Messenger[Tx]) insert(msgs []txmsg.Message) []txmsg.Statement {
	entries := make([]Entry, len(msgs))
	for i, msg := range msgs {
		entries[i] = Entry{Destination: m.cfg.Destination, Message: msg}
	}
	return m.store.Insert(entries)
}

// Wake tells the relay of this process that rows have been committed. Transact does it by itself. It never blocks.
func (m *Messenger[Tx]) Wake() { m.relay.wakeUp() }

// Run relays until ctx ends; then it sends no more, records what the broker has accepted within Config.DrainTimeout, gives
// its lanes to the other relays and closes the broker. It implements [txmsg.Messenger].
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

package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Messenger keeps the contract of [txmsg.Messenger] with RocketMQ's half messages and records in the service's database.
type Messenger[Tx any] struct {
	cfg       Config
	store     checker.Store[Tx]
	fence     *checker.Fence[Tx]
	link      *link
	storing   *storing
	listener  *listener
	transacts *gate
	ran       atomic.Bool
}

var _ txmsg.Messenger[any] = (*Messenger[any])(nil)

// New returns a Messenger over store. It neither connects to the broker nor asks the database: the first of Run and
// Transact does, so a broker that is away is survived. The client runs from then until Run has ended; a program that never
// calls Run publishes and answers checks all the same, but leaves the client running, and no old record is removed. The broker
// is told the outcome in the background: if the program ends at once, without waiting for Run, a check decides.
func New[Tx any](store checker.Store[Tx], cfg Config) (*Messenger[Tx], error) {
	return newMessenger(store, cfg, dialLibrary, remoting.Missing)
}

// On returns the Opener of this backend. It reads a [Config] from the section "rocketmq".
func On[Tx any](store checker.Store[Tx]) txmsg.Opener[Tx] {
	return func(_ string, settings txmsg.Settings) (func(context.Context) (txmsg.Messenger[Tx], error), error) {
		var cfg Config
		err := settings.Section("rocketmq", &cfg)
		open := func(context.Context) (txmsg.Messenger[Tx], error) {
			m, err := New(store, cfg)
			if err != nil {
				return nil, err
			}
			return m, nil
		}
		return open, err
	}
}

func newMessenger[Tx any](
	store checker.Store[Tx], cfg Config, dial dialer, missing func(context.Context, []string, []string) ([]string, error),
) (*Messenger[Tx], error) {
	cfg.setDefaults()
	fence, err := checker.New(store, cfg.Checker)
	if err := errors.Join(cfg.validate(), err); err != nil {
		return nil, err
	}
	metrics, err := newMetrics()
	if err != nil {
		return nil, fmt.Errorf("rocketmq: metrics: %w", err)
	}
	m := &Messenger[Tx]{cfg: cfg, store: store, fence: fence, transacts: newGate()}
	halves := newRegistry()
	m.listener = &listener{
		halves: halves, hold: cfg.HoldTimeout, check: fence.Check, checks: newGate(), metrics: metrics, cfg: &m.cfg,
	}
	m.storing = &storing{
		halves: halves, calls: newGate(), slots: make(chan struct{}, cfg.MaxStoring), cfg: &m.cfg, metrics: metrics,
	}
	m.link = newLink(&m.cfg, dial, m.listener, halves)
	m.link.missing, m.link.identity = missing, fence.Identity
	return m, nil
}

// Abilities implements [txmsg.Messenger]: none beyond the promise. Settlements are concurrent, so messages of one key can
// change places; a delay would make the broker lose the message.
func (m *Messenger[Tx]) Abilities() txmsg.Abilities { return txmsg.Abilities{} }

// Transact implements [txmsg.Messenger]. While no name server answers it returns [txmsg.ErrOutage] at once, before a
// transaction begins; after Run has ended it returns [txmsg.ErrClosed]. A message that cannot be stored is a [*StoreError].
func (m *Messenger[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) error {
	if !m.transacts.enter() {
		return fmt.Errorf("rocketmq: %w", txmsg.ErrClosed)
	}
	defer m.transacts.leave()
	client, owner, err := m.link.ready(ctx)
	if err != nil {
		return err
	}
	cfg := txmsg.TransactConfig{
		Abilities: m.Abilities(), Check: m.check, CommitTimeout: m.cfg.CommitTimeout, ResolveTimeout: m.cfg.ResolveTimeout,
	}
	start := func(tx txmsg.Transaction[Tx]) txmsg.Attempt {
		return &attempt[Tx]{
			store: m.store, storing: m.storing, client: client, owner: owner, cfg: &m.cfg, tx: tx,
		}
	}
	return txmsg.Transact(ctx, m.store, cfg, start, fn)
}

// check holds the broker's own rules.
func (m *Messenger[Tx]) check(msg txmsg.Message) error {
	invalid := func(field, value, rule string, class error) error {
		return &txmsg.InvalidMessageError{Field: field, Value: value, Rule: rule, Err: class}
	}
	switch {
	case strings.Contains(msg.Topic, "."):
		return invalid("Topic", msg.Topic, "must hold no '.' on RocketMQ", nil)
	case !slices.Contains(m.cfg.Topics, msg.Topic):
		return invalid("Topic", msg.Topic, "must be one of Config.Topics of rocketmq", txmsg.ErrNoRoute)
	case !m.link.hasRoute(msg.Topic):
		return invalid("Topic", msg.Topic, "must exist", txmsg.ErrNoRoute)
	}
	if err := txmsg.CheckSize(msg, maxMessageBytes); err != nil {
		return err
	}
	if size := propertiesBytes(msg); size > maxPropertiesBytes {
		return invalid("Headers", fmt.Sprintf("%d bytes", size),
			fmt.Sprintf("must be at most %d bytes with ID, key, type and separators", maxPropertiesBytes), txmsg.ErrTooLarge)
	}
	return nil
}

// Run implements [txmsg.Messenger]: it connects, sees to it that the brokers ask this process about halves that were left
// behind, answers them, and removes old records. A topic that does not exist is a [*MissingTopicsError], unless
// Config.AllowMissing is set. When ctx ends it takes no new transactions, waits DrainTimeout for those under way, leaves the
// rest to a check, and shuts the client down.
func (m *Messenger[Tx]) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return errors.New("rocketmq: Run was called twice")
	}
	pruneCtx, stop := context.WithCancel(ctx)
	var pruning sync.WaitGroup
	pruning.Go(func() { _ = m.fence.Run(pruneCtx) })
	err := m.link.run(ctx)
	stop()
	pruning.Wait()
	m.drain()
	return err
}

// drain goes from the outside in: who would still use a thing ends before the thing does.
func (m *Messenger[Tx]) drain() {
	m.wait(m.transacts.close(), m.cfg.DrainTimeout, "transactions under way")
	calls := m.storing.calls.close()
	m.storing.halves.giveUp()
	m.wait(calls, m.cfg.SendTimeout+time.Second, "halves being stored or settled")
	m.wait(m.listener.checks.close(), m.cfg.Checker.Timeout+time.Second, "checks being answered")
	m.link.shutdown()
}

func (m *Messenger[Tx]) wait(done <-chan struct{}, limit time.Duration, what string) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		m.cfg.Logger.Warn("shut down before everything ended: a check decides", "left", what, "after", limit)
	}
}

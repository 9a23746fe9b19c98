package txmsgtest

import (
	"context"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Memory is a Messenger over an in-memory database of texts by key, for the unit tests of services. It keeps the whole contract
// within the process: commits, rollbacks, nested transactions, runs after a conflict, order and delay. What a
// transaction has published is there when Transact returns, whether Run runs or not. Its methods may be called by many
// goroutines.
type Memory struct {
	db  txmsg.Database[*Tx]
	own *database
}

var _ txmsg.Messenger[*Tx] = (*Memory)(nil)

// NewMemory returns a Memory with an empty database.
func NewMemory() *Memory {
	db := newDatabase()
	return &Memory{db: db, own: db}
}

// Transact implements [txmsg.Messenger].
func (m *Memory) Transact(ctx context.Context, fn func(ctx context.Context, tx *Tx, out txmsg.Publisher) error) error {
	cfg := txmsg.TransactConfig{Abilities: m.Abilities()}
	return txmsg.Transact(ctx, m.db, cfg, newAttempt, fn)
}

// Run implements [txmsg.Messenger]; there is no work left for it.
func (m *Memory) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Abilities implements [txmsg.Messenger]: all there are.
func (m *Memory) Abilities() txmsg.Abilities { return txmsg.Abilities{Order: true, Delay: true} }

// Values returns a copy of the committed values.
func (m *Memory) Values() map[string]string { return m.own.Values() }

// Published returns every message of every committed transaction, in the order of the commits; one with a Delay too,
// before its time.
func (m *Memory) Published() []txmsg.Message {
	entries, _ := m.own.log.from(0)
	msgs := make([]txmsg.Message, len(entries))
	for i, e := range entries {
		msgs[i] = e.message.Clone()
	}
	return msgs
}

// Deliveries returns the messages of topic from the first one on, as a consumer gets them: each after its Delay. The channel
// is closed when ctx ends.
func (m *Memory) Deliveries(ctx context.Context, topic string) <-chan txmsg.Delivery {
	out := make(chan txmsg.Delivery)
	go func() {
		defer close(out)
		m.own.log.follow(ctx, topic, out)
	}()
	return out
}

// attempt writes the messages of one run along with the commit.
type attempt struct {
	txmsg.Collector
	tx txmsg.Transaction[*Tx]
}

func newAttempt(tx txmsg.Transaction[*Tx]) txmsg.Attempt { return &attempt{tx: tx} }

func (a *attempt) Prepare(context.Context) ([]txmsg.Statement, error) {
	args := make([]any, len(a.Messages()))
	for i, m := range a.Messages() {
		args[i] = m
	}
	return []txmsg.Statement{{SQL: "publish", Args: args}}, nil
}

func (a *attempt) Resolve(ctx context.Context) txmsg.Outcome {
	outcome, _ := a.tx.Outcome(ctx)
	return outcome
}

func (a *attempt) End(txmsg.Outcome) {}

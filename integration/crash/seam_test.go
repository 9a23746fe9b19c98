package crash

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// transaction passes points around the end of a transaction.
type transaction[Tx any] struct {
	txmsg.Transaction[Tx]
	*probe
}

func (t transaction[Tx]) Commit(ctx context.Context, along ...txmsg.Statement) error {
	t.at(before(commit))
	err := t.Transaction.Commit(ctx, along...)
	t.at(after(commit))
	return err
}

func (t transaction[Tx]) Rollback(ctx context.Context) error {
	t.at(before(rollback))
	err := t.Transaction.Rollback(ctx)
	t.at(after(rollback))
	return err
}

func beginAt[Tx any](ctx context.Context, db txmsg.Database[Tx], p *probe, savepoint func() func()) (txmsg.Transaction[Tx], error) {
	p.at(before(begin))
	tx, err := db.Begin(ctx, savepoint)
	p.at(after(begin))
	if err != nil {
		return nil, err
	}
	return transaction[Tx]{tx, p}, nil
}

// tableStore passes points around what the relay asks of the database.
type tableStore[Tx any] struct {
	localtable.Store[Tx]
	*probe
}

func (s tableStore[Tx]) Begin(ctx context.Context, savepoint func() func()) (txmsg.Transaction[Tx], error) {
	return beginAt(ctx, s.Store, s.probe, savepoint)
}

func (s tableStore[Tx]) Lease(ctx context.Context, owner string, ttl time.Duration) (localtable.Lease, error) {
	s.at(before(lease))
	held, err := s.Store.Lease(ctx, owner, ttl)
	s.leased(held.Lanes)
	s.report("lanes", fmt.Sprint(len(held.Lanes)))
	if held.Expired > 0 {
		s.report("expired", fmt.Sprint(held.Expired))
	}
	s.at(after(lease))
	return held, err
}

// Read counts only what found rows: a poll of an empty table is no step.
func (s tableStore[Tx]) Read(ctx context.Context, destination string, lanes []localtable.Lane, limit int) ([]localtable.Row, error) {
	rows, err := s.Store.Read(ctx, destination, lanes, limit)
	if len(rows) > 0 {
		s.at(after(read))
	}
	return rows, err
}

func (s tableStore[Tx]) Settle(ctx context.Context, settlement localtable.Settlement) (int, error) {
	s.at(before(settle))
	kind := "settled"
	if s.stale(settlement.Lanes) {
		kind = "stale"
	}
	changed, err := s.Store.Settle(ctx, settlement)
	s.at(after(settle))
	if err == nil {
		for _, result := range settlement.Results {
			if result.Fate == localtable.Delivered {
				s.arrived(result.Row.Message.ID)
			}
		}
		s.report(kind, fmt.Sprint(changed))
	} else if kind == "stale" {
		s.report("failed", err.Error()) // its time is over, too
	}
	return changed, err
}

func (s tableStore[Tx]) Sweep(ctx context.Context, owner string, lanes []localtable.Lane, limit int) (int, error) {
	s.at(before(sweep))
	swept, err := s.Store.Sweep(ctx, owner, lanes, limit)
	s.at(after(sweep))
	return swept, err
}

func (s tableStore[Tx]) Release(ctx context.Context, owner string, lanes ...localtable.Lane) error {
	s.at(before(release))
	err := s.Store.Release(ctx, owner, lanes...)
	s.at(after(release))
	return err
}

func (s tableStore[Tx]) PruneMessages(ctx context.Context, retention time.Duration, limit int) (int, error) {
	s.at(before(prune))
	removed, err := s.Store.PruneMessages(ctx, retention, limit)
	s.at(after(prune))
	return removed, err
}

// broker passes points around publishing, and tells the parent what it is given before it passes it on.
type broker struct {
	localtable.Broker
	*probe

	mu      sync.Mutex
	refused map[string]bool
}

func newBroker(b localtable.Broker, p *probe) *broker {
	return &broker{Broker: b, probe: p, refused: map[string]bool{}}
}

func (b *broker) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	var taken []txmsg.Message
	var places []int
	for i, m := range msgs {
		if b.refuses(m.ID) {
			results[i] = fmt.Errorf("not now: %w", txmsg.ErrRefused)
			continue
		}
		taken, places = append(taken, m), append(places, i)
	}
	b.tellOf(taken)
	b.at(before(publish))
	if len(taken) > 0 {
		for i, err := range b.Broker.Publish(ctx, taken) {
			results[places[i]] = err
		}
	}
	b.at(after(publish))
	return results
}

func (b *broker) tellOf(msgs []txmsg.Message) {
	ids := make([]string, len(msgs))
	for i, m := range msgs {
		ids[i] = m.ID
	}
	for len(ids) > 0 {
		few := ids[:min(50, len(ids))] // a line that the pipe takes as a whole
		b.report("sending", strings.Join(few, " "))
		ids = ids[len(few):]
	}
}

// refuses one message in eighty, each once: its key then waits for a second or more, with all that is written meanwhile.
func (b *broker) refuses(id string) bool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id))
	if !b.plan.Refuse || hash.Sum32()%80 != 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.refused[id]
	b.refused[id] = true
	return first
}

// halfStore passes points around what the half-message protocol asks of the database.
type halfStore[Tx any] struct {
	checker.Store[Tx]
	*probe
}

func (s halfStore[Tx]) Begin(ctx context.Context, savepoint func() func()) (txmsg.Transaction[Tx], error) {
	return beginAt(ctx, s.Store, s.probe, savepoint)
}

// Record comes before the half is sent: the parent knows of every half that the broker may have.
func (s halfStore[Tx]) Record(ctx context.Context, tx Tx, halfID string) error {
	s.report("half", halfID)
	s.at(before(record))
	err := s.Store.Record(ctx, tx, halfID)
	s.at(after(record))
	return err
}

func (s halfStore[Tx]) Fence(ctx context.Context, halfID string, wait time.Duration) (txmsg.Outcome, error) {
	s.at(before(fence))
	outcome, err := s.Store.Fence(ctx, halfID, wait)
	s.at(after(fence))
	if err == nil && outcome != txmsg.Unknown {
		s.report("fenced", halfID+" "+outcome.String())
	}
	return outcome, err
}

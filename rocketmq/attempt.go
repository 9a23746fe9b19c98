package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

// attempt is one run of a transaction. There is exactly one record in the transaction for each message: that of the half
// that is, or is going to be, acknowledged as stored. Everything runs in the engine's goroutine.
type attempt[Tx any] struct {
	store   checker.Store[Tx]
	storing *storing
	client  sender
	owner   string
	cfg     *Config
	tx      txmsg.Transaction[Tx]

	halves []*half // of the messages, in their order
	past   []*half // without a record: tried again under another ID, or published in a nested transaction that was rolled back
	failed error   // a statement of ours failed: the transaction cannot commit
}

// Publish records a half for each message and starts storing them, which overlaps the callback's further work.
func (a *attempt[Tx]) Publish(ctx context.Context, msgs []txmsg.Message) error {
	halves := make([]*half, len(msgs))
	for i, m := range msgs {
		halves[i] = newHalf(m, 1)
		if err := a.record(ctx, halves[i]); err != nil {
			return err
		}
	}
	for _, h := range halves {
		if err := a.storing.start(a.client, a.owner, h); err != nil {
			a.failed = err // records stand for halves that are not stored
			return err
		}
		a.halves = append(a.halves, h)
	}
	return nil
}

// record remembers a failure, so that a callback that swallows it does not commit without the message.
func (a *attempt[Tx]) record(ctx context.Context, h *half) error {
	if err := a.store.Record(ctx, a.tx.Tx(), h.id); err != nil {
		a.failed = fmt.Errorf("rocketmq: record half: %w", err)
		return a.failed
	}
	return nil
}

// Savepoint: the database forgets the records of what is rolled back, and their IDs are never used again.
func (a *attempt[Tx]) Savepoint() (rollback func()) {
	mark, failed := len(a.halves), a.failed
	return func() {
		a.failed = failed
		from := min(mark, len(a.halves)) // an outer savepoint may have gone first
		for _, h := range a.halves[from:] {
			a.drop(h)
		}
		a.halves = slices.Delete(a.halves, from, len(a.halves))
	}
}

// drop gives up a half whose record is gone for good.
func (a *attempt[Tx]) drop(h *half) {
	h.settle(txmsg.RolledBack)
	a.past = append(a.past, h)
}

// Prepare waits until every half is stored. One that is not is tried again as a new half: whether the old one was
// stored after all does not matter, since it has no record.
func (a *attempt[Tx]) Prepare(ctx context.Context) ([]txmsg.Statement, error) {
	start := time.Now()
	if a.failed != nil {
		return nil, a.failed
	}
	limited, cancel := context.WithTimeout(ctx, a.cfg.PrepareTimeout)
	defer cancel()
	for i := 0; i < len(a.halves); {
		h := a.halves[i]
		err := a.await(ctx, limited, h)
		if err == nil {
			i++
			continue
		}
		if h.try >= a.cfg.Tries || limited.Err() != nil || !errors.Is(err, txmsg.ErrOutage) {
			return nil, &StoreError{MessageID: h.message.ID, Topic: h.message.Topic, Tries: h.try, Err: err}
		}
		sleep(limited, retryPause<<(h.try-1))
		if err := a.replaceFailed(ctx, i); err != nil {
			return nil, err
		}
	}
	a.storing.metrics.prepared(time.Since(start))
	return nil, nil
}

func (a *attempt[Tx]) await(ctx, limited context.Context, h *half) error {
	select {
	case <-h.answered:
		return h.err
	case <-limited.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: not stored within %s", txmsg.ErrOutage, a.cfg.PrepareTimeout)
}

// replaceFailed starts a new try of every half from the i-th on that is known to have failed, so that they are stored side by
// side again.
func (a *attempt[Tx]) replaceFailed(ctx context.Context, i int) error {
	for ; i < len(a.halves); i++ {
		old := a.halves[i]
		select {
		case <-old.answered:
		default:
			continue
		}
		if old.err == nil || old.try >= a.cfg.Tries || !errors.Is(old.err, txmsg.ErrOutage) {
			continue
		}
		h := newHalf(old.message, old.try+1)
		if err := a.record(ctx, h); err != nil {
			return err
		}
		if err := a.store.Forget(ctx, a.tx.Tx(), old.id); err != nil {
			return fmt.Errorf("rocketmq: forget half: %w", err)
		}
		a.drop(old)
		if err := a.storing.start(a.client, a.owner, h); err != nil {
			return err
		}
		a.halves[i] = h
	}
	return nil
}

const (
	retryPause   = 50 * time.Millisecond  // before the second try, doubled before each further one
	resolveWait  = 500 * time.Millisecond // for the fence of an open transaction
	resolvePause = 100 * time.Millisecond // between two questions
)

// Resolve fences one half, which decides over the whole transaction: its record was written before COMMIT was sent, so
// either it is committed, or the fence waits for the session, or the transaction can no longer commit.
func (a *attempt[Tx]) Resolve(ctx context.Context) txmsg.Outcome {
	if len(a.halves) == 0 {
		outcome, err := a.tx.Outcome(ctx)
		if err != nil {
			a.cfg.Logger.Warn("outcome of a transaction without messages not found", "error", err)
			return txmsg.Unknown
		}
		return outcome
	}
	for {
		outcome, err := a.store.Fence(ctx, a.halves[0].id, resolveWait)
		if err == nil && outcome != txmsg.Unknown {
			return outcome
		}
		if sleep(ctx, resolvePause); ctx.Err() != nil {
			a.cfg.Logger.Warn("outcome not found: left to a check",
				"half_id", a.halves[0].id, "message_id", a.halves[0].message.ID, "error", err)
			return txmsg.Unknown
		}
	}
}

// End settles the halves.
func (a *attempt[Tx]) End(outcome txmsg.Outcome) {
	for _, h := range a.halves {
		h.settle(outcome)
		a.storing.halves.ended(h)
	}
	for _, h := range a.past {
		a.storing.halves.ended(h)
	}
}

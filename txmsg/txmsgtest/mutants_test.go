package txmsgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/txmsg/txmsg-go/txmsg"
)

// mutant is a backend with one fault, the case that must fail on it, and what that case must say.
type mutant struct {
	name, fails, says string
	faults
}

var mutants = []mutant{
	{
		"publishes before the commit", "C14 a message that arrives finds its row committed", "arrived before their row",
		faults{attempt: publishing(func(b *broken, m txmsg.Message) { b.own.log.append(m) })},
	},
	{
		"publishes while the transaction is open", "C14 a message does not leave while its transaction is open", "arrived while its transaction was open",
		faults{attempt: publishing(func(b *broken, m txmsg.Message) { b.own.log.append(m) })},
	},
	{
		"publishes although rolled back", "rollback sends nothing", "must not exist",
		faults{attempt: ending(func(b *broken, _ txmsg.Outcome, msgs []txmsg.Message) { b.append(msgs...) })},
	},
	{
		"sends on panic", "panic in the callback rolls back, sends nothing and goes on up", "must not exist",
		faults{transact: func(ctx context.Context, b *broken, fn callback) error {
			var last *recorder
			defer func() {
				if p := recover(); p != nil {
					b.append(last.msgs...)
					panic(p)
				}
			}()
			return b.engine(ctx, func(ctx context.Context, tx *Tx, out txmsg.Publisher) error {
				last = &recorder{Publisher: out}
				return fn(ctx, tx, last)
			})
		}},
	},
	{
		"swallows a panic", "panic in the callback rolls back, sends nothing and goes on up", "should panic",
		faults{transact: func(ctx context.Context, b *broken, fn callback) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("recovered: %v", p)
				}
			}()
			return b.engine(ctx, fn)
		}},
	},
	{
		"drops the last message", "several messages of one call and of several calls all arrive", "not delivered",
		faults{attempt: preparing(func(msgs []any) []any { return msgs[:max(1, len(msgs)-1)] })},
	},
	{
		"forgets the savepoint", "a message of a rolled-back nested transaction is not sent", "must not exist",
		faults{attempt: func(a txmsg.Attempt, _ *broken) txmsg.Attempt { return &deaf{Attempt: a} }},
	},
	{
		"an inner rollback forgets the whole transaction", "nested in nested: each rollback forgets its own messages", "not delivered",
		faults{attempt: func(a txmsg.Attempt, _ *broken) txmsg.Attempt { return &deaf{Attempt: a, rollback: a.Savepoint()} }},
	},
	{
		"loses an empty body", "C47 a nil and an empty body arrive as empty, not nil", "not delivered",
		faults{receive: func(_ int, d txmsg.Delivery) (txmsg.Delivery, bool) { return d, len(d.Message.Body) > 0 }},
	},
	{
		"makes an empty body nil", "C47 a nil and an empty body arrive as empty, not nil", "must be empty, not nil",
		faults{receive: changing(func(m *txmsg.Message) { m.Body = bytes.Clone(append([]byte(nil), m.Body...)) })},
	},
	{
		"strips the NUL escape", "C44 NUL in JSON, as an escape and as literal text, arrives untouched", "body of message",
		faults{receive: changing(func(m *txmsg.Message) { m.Body = bytes.ReplaceAll(m.Body, []byte(`\u0000`), nil) })},
	},
	{
		"ends a body at NUL", "every field and every byte of the body arrives", "body of message",
		faults{receive: changing(func(m *txmsg.Message) { m.Body, _, _ = bytes.Cut(m.Body, []byte{0}) })},
	},
	{
		"carries the sequence as a float", "every field and every byte of the body arrives", "message differs",
		faults{receive: changing(func(m *txmsg.Message) { m.Sequence = int64(float64(m.Sequence)) })},
	},
	{
		"new ID on redelivery", "redelivery keeps ID, key, type, sequence, headers and every byte of the body", "not delivered",
		faults{receive: func(copies int, d txmsg.Delivery) (txmsg.Delivery, bool) {
			if copies > 1 {
				d.Message.ID = txmsg.NewID()
			}
			return d, true
		}},
	},
	{
		"redelivery loses a header", "redelivery keeps ID, key, type, sequence, headers and every byte of the body", "headers of message",
		faults{receive: func(copies int, d txmsg.Delivery) (txmsg.Delivery, bool) {
			if copies > 1 {
				delete(d.Message.Headers, "tenant")
			}
			return d, true
		}},
	},
	{
		"lower-cases a header", "header names keep their case and values every character", "headers of message",
		faults{receive: changing(func(m *txmsg.Message) {
			headers := map[string]string{}
			for name, value := range m.Headers {
				headers[strings.ToLower(name)] = value
			}
			m.Headers = headers
		})},
	},
	{
		"drops forged headers silently", "C48 headers that would forge a broker's properties are refused by name before anything is written", "An error is expected",
		faults{transact: wrapping(func(p txmsg.Publisher) txmsg.Publisher { return &lenient{p} })},
	},
	{
		"swaps two of a key", "messages of one key keep the order of their transactions", "order of key",
		faults{reader: swapping},
	},
	{
		"turns the messages of a transaction round", "messages of one key keep their order within a transaction", "order of key",
		faults{attempt: preparing(func(msgs []any) []any {
			var turned []any
			for _, m := range msgs {
				turned = append([]any{m}, turned...)
			}
			return turned
		})},
	},
	{
		"ignores the delay", "C08 a delayed message does not arrive before its time", "is not greater than or equal",
		faults{attempt: preparing(func(msgs []any) []any {
			for i := range msgs {
				m := msgs[i].(txmsg.Message)
				m.Delay = 0
				msgs[i] = m
			}
			return msgs
		})},
	},
	{
		"runs the callback again with the messages of the first run", "a callback that is run again after a lost race starts with no messages", "distinct messages",
		faults{transact: func(ctx context.Context, b *broken, fn callback) error {
			var all []txmsg.Message
			return b.engine(ctx, func(ctx context.Context, tx *Tx, out txmsg.Publisher) error {
				collect := &recorder{Publisher: out}
				err := fn(ctx, tx, collect)
				if all = append(all, collect.msgs...); err != nil {
					return err
				}
				return out.Publish(ctx, all[:len(all)-len(collect.msgs)]...)
			})
		}},
	},
	{
		"does not run again after a conflict", "a callback that is run again after a conflict starts with no messages", "a value that was read has changed",
		faults{config: func(cfg *txmsg.TransactConfig) { cfg.Runs = 1 }},
	},
	{
		"sends in every run", "C15 transactions that conflict send one message for each call", "must not exist",
		faults{transact: func(ctx context.Context, b *broken, fn callback) error {
			return b.engine(ctx, func(ctx context.Context, tx *Tx, out txmsg.Publisher) error {
				return fn(ctx, tx, &renaming{Publisher: out, log: b.own.log})
			})
		}},
	},
	{
		"swallows a commit error", "an error of COMMIT is returned and sends nothing", "COMMIT failed and Transact returned nil",
		faults{begin: committing(func(ctx context.Context, tx txmsg.Transaction[*Tx], along []txmsg.Statement) error {
			_ = tx.Commit(ctx, along...)
			return nil
		})},
	},
	{
		"takes an unclear commit for a rollback", "C12 an unclear COMMIT is never a false answer", "the transaction committed, and Transact said",
		faults{begin: committing(func(ctx context.Context, tx txmsg.Transaction[*Tx], along []txmsg.Statement) error {
			if err := tx.Commit(ctx, along...); errors.Is(err, txmsg.ErrOutcomeUnknown) {
				return errLostReply
			} else {
				return err
			}
		})},
	},
	{
		"retries an unclear commit", "C12 an unclear COMMIT is never a false answer", "must not be tried again",
		faults{begin: committing(func(ctx context.Context, tx txmsg.Transaction[*Tx], along []txmsg.Statement) error {
			if err := tx.Commit(ctx, along...); errors.Is(err, txmsg.ErrOutcomeUnknown) {
				return txmsg.ErrLostRace
			} else {
				return err
			}
		})},
	},
	{
		"forgets the messages of an unclear commit", "C12 an unclear COMMIT is never a false answer", "not delivered",
		faults{begin: func(tx txmsg.Transaction[*Tx], b *broken) txmsg.Transaction[*Tx] {
			return &committer{Transaction: tx, commit: func(ctx context.Context, tx txmsg.Transaction[*Tx], along []txmsg.Statement) error {
				if b.world.faulty() {
					along = nil
				}
				return tx.Commit(ctx, along...)
			}}
		}},
	},
	{
		"lets the caller's context end COMMIT", "C12 a context that ends during COMMIT does not make it a false answer", "the transaction committed, and Transact said",
		faults{transact: func(ctx context.Context, b *broken, fn callback) error {
			mine := broken{Memory: b.Memory, world: b.world}
			mine.begin = committing(func(_ context.Context, tx txmsg.Transaction[*Tx], along []txmsg.Statement) error {
				return tx.Commit(ctx, along...)
			})
			return mine.engine(ctx, fn)
		}},
	},
	{
		"commits although the context has ended", "a context that ends before COMMIT rolls back and sends nothing", `"context canceled" in chain but got nil`,
		faults{transact: func(ctx context.Context, b *broken, fn callback) error {
			return b.engine(context.WithoutCancel(ctx), func(_ context.Context, tx *Tx, out txmsg.Publisher) error { return fn(ctx, tx, out) })
		}},
	},
	{
		"takes a second connection", "C13 publishing takes no second connection", "within 2s",
		faults{attempt: func(a txmsg.Attempt, b *broken) txmsg.Attempt { return &greedy{Attempt: a, db: b.db} }},
	},
	{
		"forgets what was committed before Run", "what was committed while nobody ran is delivered by the next Run", "not delivered",
		faults{
			attempt: func(a txmsg.Attempt, b *broken) txmsg.Attempt {
				return &hooked{Attempt: a, prepare: func(msgs []any) []any {
					if !b.running.Load() {
						return nil
					}
					return msgs
				}}
			},
			run: func(ctx context.Context, b *broken) error {
				b.running.Store(true)
				return b.Memory.Run(ctx)
			},
		},
	},
	{
		"loses a message now and then", "many goroutines, a third rolled back: delivered is committed", "not delivered",
		faults{receive: everyNth(500, func(txmsg.Delivery) bool { return false })},
	},
	{
		"returns an error when the context ends", "Run returns nil when its context ends and leaves no goroutine", "Run after its context ended",
		faults{run: func(ctx context.Context, _ *broken) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	},
	{
		"leaves a goroutine", "Run returns nil when its context ends and leaves no goroutine", "found unexpected goroutines",
		faults{run: func(ctx context.Context, b *broken) error {
			go func() { select {} }()
			return b.Memory.Run(ctx)
		}},
	},
	{
		"takes a message after the callback", "Publish after the callback is refused", "publisher used after its transaction ended",
		faults{transact: wrapping(func(p txmsg.Publisher) txmsg.Publisher { return &mute{p} })},
	},
	{
		"keeps the caller's memory", "Publish keeps no reference to the caller's memory", "headers of message",
		faults{transact: func(ctx context.Context, b *broken, fn callback) error {
			return b.engine(ctx, func(ctx context.Context, tx *Tx, out txmsg.Publisher) error {
				late := &recorder{}
				if err := fn(ctx, tx, late); err != nil {
					return err
				}
				return out.Publish(ctx, late.msgs...)
			})
		}},
	},
}

// append delivers msgs whatever became of their transaction.
func (b *broken) append(msgs ...txmsg.Message) {
	for _, m := range msgs {
		b.own.log.append(m)
	}
}

// changing changes every delivery.
func changing(change func(*txmsg.Message)) func(int, txmsg.Delivery) (txmsg.Delivery, bool) {
	return func(_ int, d txmsg.Delivery) (txmsg.Delivery, bool) {
		d.Message.Headers = maps.Clone(d.Message.Headers)
		change(&d.Message)
		return d, true
	}
}

// everyNth asks keep about every nth delivery.
func everyNth(n int64, keep func(txmsg.Delivery) bool) func(int, txmsg.Delivery) (txmsg.Delivery, bool) {
	var count atomic.Int64
	return func(_ int, d txmsg.Delivery) (txmsg.Delivery, bool) { return d, count.Add(1)%n != 0 || keep(d) }
}

// swapping sends the third delivery before the second one of its key.
func swapping(ctx context.Context, in <-chan txmsg.Delivery, out chan<- txmsg.Delivery) {
	var held []txmsg.Delivery
	seen := map[string]int{}
	send := func(d txmsg.Delivery) {
		select {
		case out <- d:
		case <-ctx.Done():
		}
	}
	for d := range in {
		if seen[d.Message.Key]++; seen[d.Message.Key] == 2 && len(held) == 0 {
			held = append(held, d)
			continue
		}
		send(d)
		if len(held) > 0 && held[0].Message.Key == d.Message.Key {
			send(held[0])
			held = []txmsg.Delivery{{}}
		}
	}
}

package txmsgtest

import (
	"context"

	"github.com/txmsg/txmsg-go/txmsg"
)

// recorder keeps what passes through it, or, without a Publisher, everything.
type recorder struct {
	txmsg.Publisher
	msgs []txmsg.Message
}

func (r *recorder) Publish(ctx context.Context, msgs ...txmsg.Message) error {
	r.msgs = append(r.msgs, msgs...)
	if r.Publisher == nil {
		return nil
	}
	return r.Publisher.Publish(ctx, msgs...)
}

// renaming also delivers a copy under a new ID at once.
type renaming struct {
	txmsg.Publisher
	log *log
}

func (r *renaming) Publish(ctx context.Context, msgs ...txmsg.Message) error {
	for _, m := range msgs {
		m.ID = txmsg.NewID()
		r.log.append(m)
	}
	return r.Publisher.Publish(ctx, msgs...)
}

// lenient takes away the headers that are refused.
type lenient struct{ txmsg.Publisher }

func (l *lenient) Publish(ctx context.Context, msgs ...txmsg.Message) error {
	for i, m := range msgs {
		if m.Validate() != nil {
			msgs[i].Headers = nil
		}
	}
	return l.Publisher.Publish(ctx, msgs...)
}

// mute returns no error.
type mute struct{ txmsg.Publisher }

func (m *mute) Publish(ctx context.Context, msgs ...txmsg.Message) error {
	_ = m.Publisher.Publish(ctx, msgs...)
	return nil
}

// wrapping gives the callback another Publisher.
func wrapping(wrap func(txmsg.Publisher) txmsg.Publisher) func(context.Context, *broken, callback) error {
	return func(ctx context.Context, b *broken, fn callback) error {
		return b.engine(ctx, func(ctx context.Context, tx *Tx, out txmsg.Publisher) error { return fn(ctx, tx, wrap(out)) })
	}
}

// hooked is an Attempt with one of its acts changed.
type hooked struct {
	txmsg.Attempt
	publish func(txmsg.Message)
	prepare func([]any) []any
	end     func(txmsg.Outcome)
}

func (h *hooked) Publish(ctx context.Context, msgs []txmsg.Message) error {
	if h.publish == nil {
		return h.Attempt.Publish(ctx, msgs)
	}
	for _, m := range msgs {
		h.publish(m)
	}
	return nil
}

func (h *hooked) Prepare(ctx context.Context) ([]txmsg.Statement, error) {
	stmts, err := h.Attempt.Prepare(ctx)
	if h.prepare != nil && err == nil && len(stmts[0].Args) > 0 {
		stmts[0].Args = h.prepare(stmts[0].Args)
	}
	return stmts, err
}

func (h *hooked) End(outcome txmsg.Outcome) {
	if h.end != nil {
		h.end(outcome)
	}
	h.Attempt.End(outcome)
}

func publishing(publish func(*broken, txmsg.Message)) func(txmsg.Attempt, *broken) txmsg.Attempt {
	return func(a txmsg.Attempt, b *broken) txmsg.Attempt {
		return &hooked{Attempt: a, publish: func(m txmsg.Message) { publish(b, m) }}
	}
}

func preparing(prepare func([]any) []any) func(txmsg.Attempt, *broken) txmsg.Attempt {
	return func(a txmsg.Attempt, _ *broken) txmsg.Attempt { return &hooked{Attempt: a, prepare: prepare} }
}

func ending(end func(*broken, txmsg.Outcome, []txmsg.Message)) func(txmsg.Attempt, *broken) txmsg.Attempt {
	return func(a txmsg.Attempt, b *broken) txmsg.Attempt {
		return &hooked{Attempt: a, end: func(outcome txmsg.Outcome) {
			if outcome != txmsg.Committed {
				end(b, outcome, a.(*attempt).Messages())
			}
		}}
	}
}

// deaf does not hear of savepoints, or goes back to the wrong one.
type deaf struct {
	txmsg.Attempt
	rollback func()
}

func (d *deaf) Savepoint() (rollback func()) {
	if d.rollback != nil {
		return d.rollback
	}
	return func() {}
}

// greedy opens a transaction of its own for every Publish.
type greedy struct {
	txmsg.Attempt
	db txmsg.Database[*Tx]
}

func (g *greedy) Publish(ctx context.Context, msgs []txmsg.Message) error {
	tx, err := g.db.Begin(ctx, nil)
	if err != nil {
		return err
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	return g.Attempt.Publish(ctx, msgs)
}

// committer replaces COMMIT.
type committer struct {
	txmsg.Transaction[*Tx]
	commit func(context.Context, txmsg.Transaction[*Tx], []txmsg.Statement) error
}

func (c *committer) Commit(ctx context.Context, along ...txmsg.Statement) error {
	return c.commit(ctx, c.Transaction, along)
}

func committing(commit func(context.Context, txmsg.Transaction[*Tx], []txmsg.Statement) error) func(txmsg.Transaction[*Tx], *broken) txmsg.Transaction[*Tx] {
	return func(tx txmsg.Transaction[*Tx], _ *broken) txmsg.Transaction[*Tx] {
		return &committer{Transaction: tx, commit: commit}
	}
}

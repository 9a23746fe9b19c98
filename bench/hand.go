package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// nothing is the business transaction alone, without a message.
type nothing struct{ db *database }

func openBare(db *database, _ *sink) (subject, error) { return &nothing{db}, nil }

func (*nothing) setup(context.Context) error { return nil }
func (n *nothing) write(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, n.db.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertOrderSQL, orderArgs(id)...)
		return err
	})
}
func (*nothing) pendingSQL() string              { return "" }
func (*nothing) relay(ctx context.Context) error { <-ctx.Done(); return nil }
func (*nothing) close()                          {}

// byHand is what one would write in an afternoon: an INSERT of its own, and a loop that deletes a batch, publishes it and
// commits. It has no states, no retries and no order, and keeps a transaction open while the broker answers. The keeping one
// marks what was sent instead of deleting it.
type byHand struct {
	db      *database
	out     *sink
	keeping bool
}

const (
	createOutboxSQL = `CREATE TABLE outbox (id bigserial PRIMARY KEY, msg_key text NOT NULL, topic text NOT NULL,
    payload bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`
	insertOutboxSQL = `INSERT INTO outbox (msg_key, topic, payload) VALUES ($1, $2, $3)`
	fillOutboxSQL   = `INSERT INTO outbox (msg_key, topic, payload) VALUES (` + keySQL + `, 'orders', convert_to(body(i), 'UTF8'))`
	takeOutboxSQL   = `DELETE FROM outbox WHERE id = ANY(ARRAY(SELECT id FROM outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING id, msg_key, payload`

	markableSQL = `ALTER TABLE outbox ADD sent_at timestamptz`
	unsentSQL   = `CREATE INDEX outbox_unsent ON outbox (id) WHERE sent_at IS NULL`
	readSQL     = `SELECT id, msg_key, payload FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`
	markSQL     = `UPDATE outbox SET sent_at = now() WHERE id = ANY ($1)`

	handBatch = 500
	handPoll  = 10 * time.Millisecond
)

func openHand(keeping bool) func(*database, *sink) (subject, error) {
	return func(db *database, out *sink) (subject, error) { return &byHand{db, out, keeping}, nil }
}

func (h *byHand) setup(ctx context.Context) error {
	if h.keeping {
		return h.db.exec(ctx, createOutboxSQL, markableSQL, unsentSQL)
	}
	return h.db.exec(ctx, createOutboxSQL)
}

func (h *byHand) write(ctx context.Context, id int64) error { return writeOutbox(ctx, h.db, id) }

func writeOutbox(ctx context.Context, db *database, id int64) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertOrderSQL, orderArgs(id)...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, insertOutboxSQL, key(id), "orders", body(id))
		return err
	})
}

func (*byHand) pendingSQL() string { return fillOutboxSQL }

func (h *byHand) relay(ctx context.Context) error {
	for ctx.Err() == nil {
		sent, err := h.batch(ctx)
		if err == nil && sent > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(handPoll):
		}
	}
	return nil
}

type outboxRow struct {
	id int64
	message
}

func (h *byHand) batch(ctx context.Context) (sent int, err error) {
	err = pgx.BeginFunc(ctx, h.db.pool, func(tx pgx.Tx) error {
		take := takeOutboxSQL
		if h.keeping {
			take = readSQL
		}
		found, err := tx.Query(ctx, take, handBatch)
		if err != nil {
			return err
		}
		rows, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (r outboxRow, err error) {
			err = row.Scan(&r.id, &r.key, &r.body)
			return r, err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		slices.SortFunc(rows, func(a, b outboxRow) int { return cmp.Compare(a.id, b.id) })
		msgs, ids := make([]message, len(rows)), make([]int64, len(rows))
		for i, row := range rows {
			msgs[i], ids[i] = row.message, row.id
		}
		sent = len(msgs)
		if err := h.out.publishAll(ctx, msgs); err != nil || !h.keeping {
			return err
		}
		_, err = tx.Exec(ctx, markSQL, ids)
		return err
	})
	return sent, err
}

func (*byHand) close() {}

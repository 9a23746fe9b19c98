package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const empty = "empty"

// situation is what a table can have come to.
type situation struct {
	name      string
	by        string // the situation whose figures its own are compared with; "" for the empty one
	reference bool   // it is there to be compared with: that it costs more than nothing is not judged
	prepare   func(ctx context.Context, p *site) error
}

// situations are all there are. Where something is held, every poll takes a few looks more, however much it is: so much is
// compared with little.
func situations(a amounts) []situation {
	all := []situation{{name: empty, reference: true, prepare: func(context.Context, *site) error { return nil }}}
	for _, count := range a.archives {
		all = append(all, situation{name: fmt.Sprintf("archive of %d", count), prepare: func(ctx context.Context, p *site) error { return p.archive(ctx, count) }})
	}
	const few = 100
	stuckFew, delayedFew := fmt.Sprintf("%d behind a stuck key", few), fmt.Sprintf("%d delayed", few)
	return append(all,
		situation{name: stuckFew, reference: true, prepare: func(ctx context.Context, p *site) error { return p.stick(ctx, few) }},
		situation{name: fmt.Sprintf("%d pending (%d stuck)", a.pending, a.stuck), by: stuckFew, prepare: func(ctx context.Context, p *site) error {
			if err := p.stick(ctx, a.stuck); err != nil {
				return err
			}
			p.backlog = a.pending - a.stuck
			return p.fill(ctx, p.backlog)
		}},
		situation{name: delayedFew, reference: true, prepare: func(ctx context.Context, p *site) error { return p.delay(ctx, few) }},
		situation{name: fmt.Sprintf("%d delayed", a.delayed), by: delayedFew, prepare: func(ctx context.Context, p *site) error { return p.delay(ctx, a.delayed) }},
		situation{name: "old reader", prepare: func(ctx context.Context, p *site) error {
			if err := p.hold(ctx, pgx.RepeatableRead, "SELECT count(*) FROM orders"); err != nil {
				return err
			}
			return p.churn(ctx, a.churned)
		}},
		situation{name: "old writer", prepare: func(ctx context.Context, p *site) error {
			if err := p.hold(ctx, pgx.ReadCommitted, "INSERT INTO orders VALUES (1, 1, 1, 'new')"); err != nil {
				return err
			}
			return p.churn(ctx, a.churned)
		}},
	)
}

// filling is one statement's share, so that none takes long.
const filling = 250_000

// each runs sql, which writes a row for each i of numbered, for count rows.
func (p *site) each(ctx context.Context, sql string, count int) error {
	for from := 1; from <= count; from += filling {
		to := min(from+filling-1, count)
		if err := p.db.exec(ctx, fmt.Sprintf("WITH numbered AS (SELECT i::bigint FROM generate_series(%d, %d) i) ", from, to)+sql); err != nil {
			return err
		}
	}
	return nil
}

// archive writes what a relay would have kept.
func (p *site) archive(ctx context.Context, count int) error {
	return p.each(ctx, `INSERT INTO txmsg_delivered (seq, created_at, attempts, destination, id, topic, key, type, body)
SELECT nextval('txmsg_ready_seq_seq'), clock_timestamp(), 0, 'default', `+idSQL+`, 'orders', `+keySQL+`, '`+eventType+`', convert_to(body(i), 'UTF8') FROM numbered`, count)
}

// fill writes rows that are ready.
func (p *site) fill(ctx context.Context, count int) error {
	return p.each(ctx, `INSERT INTO txmsg_message (id, topic, key, type, body)
SELECT `+idSQL+`, 'orders', `+keySQL+`, '`+eventType+`', convert_to(body(i), 'UTF8') FROM numbered`, count)
}

// stick writes a failed head and so many rows behind it.
func (p *site) stick(ctx context.Context, count int) error {
	return p.each(ctx, `INSERT INTO txmsg_held (state, delayed, holds, attempts, due_at, id, topic, key, type, body)
SELECT CASE i WHEN 1 THEN 'retry' ELSE 'parked' END, false, i = 1, (i = 1)::int, CASE i WHEN 1 THEN clock_timestamp() + interval '1 day' END,
    `+idSQL+`, 'orders', 'stuck', '`+eventType+`', convert_to(body(i), 'UTF8') FROM numbered`, count)
}

// delay writes rows whose time comes later.
func (p *site) delay(ctx context.Context, count int) error {
	return p.each(ctx, `INSERT INTO txmsg_held (state, due_at, id, topic, key, type, body)
SELECT 'waiting', clock_timestamp() + interval '1 day', `+idSQL+`, 'orders', `+keySQL+`, '`+eventType+`', convert_to(body(i), 'UTF8') FROM numbered`, count)
}

// hold opens a transaction that stays open until the place is closed.
func (p *site) hold(ctx context.Context, isolation pgx.TxIsoLevel, sql string) error {
	conn, err := pgx.Connect(ctx, p.db.dsn)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sql)
	return err
}

// churn has so many messages written and delivered.
func (p *site) churn(ctx context.Context, count int) error {
	if err := p.fill(ctx, count); err != nil {
		return err
	}
	_, err := p.drain(ctx, count)
	return err
}

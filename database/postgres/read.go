package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txmsg/txmsg-go/localtable"
)

// planSQL leaves the planner the one path whose cost does not depend on how much there is. It judges by statistics that
// are minutes old, of a table that may have been empty then. The path does not depend on the parameters, so the plan is made
// once: making it costs as much as a batch. The settings end with the transaction.
const planSQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)`

// readPlanSQL also tells the time, as its last column.
const readPlanSQL = planSQL + `, extract(epoch FROM clock_timestamp())::float8`

// readSQL takes the ready rows first from the front of every lane: those were written about the same time, so they stand
// on the same pages, and have many keys. Only what is missing then comes from further back in the lanes. Held rows
// whose time has come get at most half of the batch, or what ready rows leave; only to know what those leave, when more
// than half are due, are ready rows counted. Where nothing waits for its time no lane is asked, and none is asked for what is
// further back where the front is all that is wanted of it. A lane is read from the bound that is known of it, see horizon; the
// lanes go round, so that none is always last.
//
// Of what stands before a row of the same key, only a row that is read with it lets it go, and of the failed ones only a
// retry can be read. Asking first whether anything failed at all spares the question about every row. OFFSET 0 keeps the
// planner from going through all held rows to find those that are due.
const (
	readSQL = `
WITH lanes AS MATERIALIZED (
    SELECT t.lane, CASE WHEN t.reopened = ($6::bigint[])[t.lane + 1] AND (SELECT i.id FROM txmsg_incarnation i) = $7::uuid
        THEN ($2::bigint[])[t.lane + 1] ELSE -9223372036854775808 END AS low
    FROM txmsg_lane t WHERE ($2::bigint[])[t.lane + 1] < 9223372036854775807 ORDER BY (t.lane + $8::integer) % 64
), due AS MATERIALIZED (
    SELECT d.seq, row_number() OVER () AS place
    FROM lanes l CROSS JOIN LATERAL (
        SELECT h.seq FROM txmsg_held h
        WHERE h.destination = $1 AND h.lane = l.lane AND h.state IN ('waiting', 'retry') AND h.due_at <= (SELECT clock_timestamp())
        ORDER BY h.due_at LIMIT $3) d
    WHERE (SELECT EXISTS (SELECT FROM txmsg_held h WHERE h.destination = $1 AND h.state IN ('waiting', 'retry')))
    LIMIT $3
), again AS MATERIALIZED (
    SELECT d.seq FROM due d
    WHERE d.place <= greatest($3 / 2, 1) OR d.place <= $3 - (SELECT count(*) FROM (` + readySQL + ` LIMIT $3 - greatest($3 / 2, 1)) r)
), picked AS (
    SELECT NULL::tid AS place, h.lane, h.seq, h.revision::bigint * 4 + CASE h.state WHEN 'retry' THEN 2 ELSE 1 END AS packed,
        h.id, h.topic, h.key, h.type, h.sequence, h.headers, h.body,
        h.delayed, h.attempts, h.created_at
    FROM again a CROSS JOIN LATERAL (SELECT * FROM txmsg_held h WHERE h.seq = a.seq OFFSET 0) h
    UNION ALL
    ` + readySQL + `
    LIMIT $3
)
SELECT p.place, p.lane, p.seq, p.packed, p.id, p.topic, p.key, p.type, coalesce(p.sequence, 0), p.headers, p.body,
    p.delayed, p.attempts, p.created_at,
    p.key <> '' AND NOT p.delayed AND (SELECT EXISTS (SELECT FROM txmsg_held f WHERE ` + standsBefore + `)) AND EXISTS (
        SELECT FROM txmsg_held f
        WHERE f.lane = p.lane AND f.destination = $1 AND f.key = p.key AND ` + standsBefore + ` AND f.seq < p.seq
            AND f.seq NOT IN (SELECT a.seq FROM again a))
FROM picked p
ORDER BY p.seq`

	// standsBefore is the condition of txmsg_held_before, word for word.
	standsBefore = `(f.holds OR f.state = 'parked') IS TRUE`

	othersSQL = `
WITH first AS MATERIALIZED (
    SELECT DISTINCT ON (m.lane, m.key, CASE m.key WHEN '' THEN m.seq END) m.lane, m.seq, m.topic
    FROM unnest($2::smallint[]) AS l (lane) JOIN txmsg_ready m ON m.destination = $1 AND m.lane = l.lane
    ORDER BY m.lane, m.key, CASE m.key WHEN '' THEN m.seq END, m.seq
), picked AS MATERIALIZED (
    SELECT f.lane, f.seq FROM first f WHERE f.topic <> ALL ($4::text[]) LIMIT $3
)
SELECT m.ctid, m.lane, m.seq, m.revision::bigint * 4, m.id, m.topic, m.key, m.type, coalesce(m.sequence, 0), m.headers, m.body,
    false, m.attempts, m.created_at, m.key <> ''` + isBehind + `
FROM picked p JOIN txmsg_ready m ON m.destination = $1 AND m.lane = p.lane AND m.seq = p.seq
ORDER BY m.seq`

	readySQL = `(SELECT r.* FROM lanes l CROSS JOIN LATERAL (` + laneSQL + ` LIMIT $4) r)
    UNION ALL
    (SELECT r.* FROM lanes l CROSS JOIN LATERAL (` + laneSQL + ` OFFSET $4 LIMIT $3) r WHERE $5)`

	laneSQL = `SELECT m.ctid AS place, m.lane, m.seq, m.revision::bigint * 4 AS packed, m.id, m.topic, m.key, m.type, m.sequence, m.headers, m.body,
            false AS delayed, m.attempts, m.created_at
        FROM txmsg_ready m WHERE m.destination = $1 AND m.lane = l.lane AND m.seq > l.low ORDER BY m.seq`
)

// Read implements [localtable.Store].
func (db *DB) Read(ctx context.Context, destination string, lanes []localtable.Lane, limit int) ([]localtable.Row, error) {
	if len(lanes) == 0 || limit < 1 {
		return nil, nil
	}
	h := db.horizon(destination)
	g := h.begin(lanes)
	var rows []localtable.Row
	var now float64
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(readPlanSQL).QueryRow(func(row pgx.Row) error { return row.Scan(nil, nil, nil, nil, nil, nil, &now) })
		if g.sight != nil {
			g.sight.queue(batch, db.sql)
		}
		if g.deep {
			rows = make([]localtable.Row, 0, limit)
		}
		collect(batch.Queue(db.sql(readSQL), g.args(destination, len(lanes), limit)...), destination, &rows)
	})
	if err != nil {
		h.fail(g)
		return nil, fmt.Errorf("postgres: read messages: %w", err)
	}
	h.end(g, now, rows, limit)
	return rows, nil
}

// args are those of readSQL.
func (g *glance) args(destination string, lanes, limit int) []any {
	first := limit
	if g.deep {
		first = (limit + lanes - 1) / lanes
	}
	return []any{destination, g.lows, limit, first, g.deep, g.reopened, g.incarnation, rand.IntN(localtable.Lanes)}
}

// Others implements [localtable.Store].
func (db *DB) Others(ctx context.Context, destination string, lanes []localtable.Lane, topics []string, limit int) ([]localtable.Row, error) {
	numbers, _ := columns(lanes)
	var rows []localtable.Row
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		collect(batch.Queue(db.sql(othersSQL), destination, numbers, limit, topics), destination, &rows)
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: read messages of other topics: %w", err)
	}
	return rows, nil
}

func collect(query *pgx.QueuedQuery, destination string, into *[]localtable.Row) {
	query.Query(func(found pgx.Rows) (err error) {
		*into, err = pgx.AppendRows(*into, found, scanRow(destination))
		return err
	})
}

// scanRow scans all rows of a query into the same place, from which each is copied when it is returned: else each would be garbage.
func scanRow(destination string) pgx.RowToFunc[localtable.Row] {
	var row localtable.Row
	var topic, kind repeated
	var headers []byte
	var place pgtype.TID
	m := &row.Message
	columns := []any{
		&place, &row.Lane, &row.Seq, &row.Revision, &m.ID, &topic, &m.Key, &kind, &m.Sequence, &headers, &m.Body,
		&row.Delayed, &row.Attempts, (*instant)(&row.Created), &row.Follower,
	}
	return func(found pgx.CollectableRow) (localtable.Row, error) {
		row = localtable.Row{Destination: destination}
		if err := found.Scan(columns...); err != nil {
			return row, err
		}
		_, state := unpack(row.Revision)
		row.Head = state == stateRetry && m.Key != "" && !row.Delayed
		row.Place, m.Topic, m.Type, m.Headers = packPlace(place), topic.text, kind.text, decodeHeaders(headers)
		return row, nil
	}
}

// repeated is a text that is mostly the same as that of the row before.
type repeated struct{ text string }

// ScanBytes implements [pgtype.BytesScanner].
func (r *repeated) ScanBytes(text []byte) error {
	if string(text) != r.text {
		r.text = string(text)
	}
	return nil
}

// The states in which a row can be read. A Row has no field for the state, which tells the table that the row stands in, so
// it travels in the revision, which still grows with every change: the statements that read return revision * 4 + state.
const (
	stateReady = iota
	stateWaiting
	stateRetry
)

func unpack(packed int64) (revision, state int64) { return packed >> 2, packed & 3 }

// A place is a ctid: where a ready row stands in its table for as long as it does.
func packPlace(id pgtype.TID) int64 { return int64(id.BlockNumber)<<16 | int64(id.OffsetNumber) }

func unpackPlace(place int64) pgtype.TID {
	return pgtype.TID{BlockNumber: uint32(place >> 16), OffsetNumber: uint16(place), Valid: true}
}

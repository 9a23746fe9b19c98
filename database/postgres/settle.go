package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmsg/txmsg-go/localtable"
)

// A settlement is one transaction and one round trip. Its first statement locks the lanes; the others see all that was
// settled, parked and taken over before the locks were granted. They run in an order in which each sees what the ones
// before have written: who is delivered, who failed, who therefore waits, who no longer does.
//
// Every way to change a message's row locks its lane first, the lanes in the order of their numbers.
const (
	lockLanesSQL = `SELECT FROM txmsg_lane WHERE lane = ANY ($1::smallint[]) AND owner = $2 ORDER BY lane FOR NO KEY UPDATE`

	// resultFrom is the part of a statement that finds the rows of results that may be settled: $1 to $6.
	resultFrom = `unnest($2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
    AS r (lane, epoch, destination, state, seq, revision)
    JOIN txmsg_lane l ON l.lane = r.lane AND l.owner = $1 AND l.epoch = r.epoch`
	resultIs = `m.destination = r.destination AND m.state = r.state AND m.lane = r.lane AND m.seq = r.seq AND m.revision = r.revision`

	deleteSQL = `DELETE FROM txmsg_message m USING ` + resultFrom + ` WHERE ` + resultIs

	archiveSQL = `WITH gone AS (` + deleteSQL + ` RETURNING m.*)
INSERT INTO txmsg_delivered (seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body)
SELECT seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body FROM gone`

	failSQL = `UPDATE txmsg_message m SET
    state = CASE WHEN f.after IS NULL THEN 'dead' ELSE 'retry' END,
    due_at = clock_timestamp() + f.after * interval '1 microsecond',
    attempts = m.attempts + 1,
    revision = m.revision + 1,
    holds = m.key <> '' AND NOT m.delayed AND (f.after IS NOT NULL OR $12),
    errors = CASE WHEN $11 > 0 THEN jsonb_path_query_array(
        coalesce(m.errors, '[]') || jsonb_build_object('at', clock_timestamp(), 'class', f.class, 'error', f.error),
        '$[last - $n to last]', jsonb_build_object('n', $11 - 1)) END
FROM unnest($2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[])
    AS f (lane, epoch, destination, state, seq, revision, after, error, class)
    JOIN txmsg_lane l ON l.lane = f.lane AND l.owner = $1 AND l.epoch = f.epoch
WHERE m.destination = f.destination AND m.state = f.state AND m.lane = f.lane AND m.seq = f.seq AND m.revision = f.revision`

	parkSQL = `UPDATE txmsg_message m SET state = 'parked', revision = m.revision + 1 FROM ` + resultFrom + ` WHERE ` + resultIs + `
    AND EXISTS (SELECT FROM txmsg_message f
        WHERE f.destination = m.destination AND f.key = m.key AND f.holds AND f.seq < m.seq)`

	unparkSQL = `WITH next AS MATERIALIZED (
    SELECT n.* FROM (SELECT DISTINCT lane, epoch, destination, key
            FROM unnest($2::smallint[], $3::bigint[], $4::text[], $5::text[]) AS k (lane, epoch, destination, key)) k
        JOIN txmsg_lane l ON l.lane = k.lane AND l.owner = $1 AND l.epoch = k.epoch
        CROSS JOIN LATERAL (` + freeSQL + ` LIMIT $6) n
)
UPDATE txmsg_message m SET state = 'ready', revision = m.revision + 1 FROM next n
WHERE ` + freeIs

	// freeSQL are the parked rows of key k before which nothing has failed, in order.
	freeSQL = `SELECT p.lane, p.destination, p.key, p.seq FROM txmsg_message p
        WHERE p.lane = k.lane AND p.destination = k.destination AND p.key = k.key AND p.state = 'parked'
            AND p.seq < coalesce((SELECT min(f.seq) FROM txmsg_message f
                WHERE f.destination = k.destination AND f.key = k.key AND f.holds), 9223372036854775807)
        ORDER BY p.seq`
	// freeIs names the whole entry of the index over parked rows, which the planner may take for this.
	freeIs = `m.destination = n.destination AND m.state = 'parked' AND m.lane = n.lane AND m.key = n.key AND m.seq = n.seq`
)

// Settle implements [localtable.Store].
func (db *DB) Settle(ctx context.Context, s localtable.Settlement) (changed int, err error) {
	plan := newSettling(s)
	if plan.empty() {
		return 0, nil
	}
	err = db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		batch.Queue(db.sql(lockLanesSQL), plan.lanes(), s.Owner)
		count := func(tag pgconn.CommandTag) error {
			changed += int(tag.RowsAffected())
			return nil
		}
		if len(plan.delivered.seqs) > 0 {
			statement := deleteSQL
			if s.Archive {
				statement = archiveSQL
			}
			batch.Queue(db.sql(statement), plan.delivered.args(s.Owner)...).Exec(count)
		}
		if len(plan.failed.seqs) > 0 {
			args := append(plan.failed.args(s.Owner), plan.afters, plan.errors, plan.classes, s.Errors, s.DeadHolds)
			batch.Queue(db.sql(failSQL), args...).Exec(count)
		}
		if len(plan.parked.seqs) > 0 {
			batch.Queue(db.sql(parkSQL), plan.parked.args(s.Owner)...).Exec(count)
		}
		if len(plan.heads.keys) > 0 && s.Unpark > 0 {
			heads := plan.heads
			batch.Queue(db.sql(unparkSQL), s.Owner, heads.lanes, heads.epochs, heads.destinations, heads.keys, s.Unpark)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: settle: %w", err)
	}
	return changed, nil
}

// settling is a settlement as the columns of its statements.
type settling struct {
	delivered, failed, parked results

	afters          []*int64 // of failed, in microseconds; nil for dead
	errors, classes []string
	heads           heads
}

type results struct {
	lanes        []int16
	epochs       []int64
	destinations []string
	states       []string
	seqs         []int64
	revisions    []int64
}

// heads are the keys that something may no longer hold back.
type heads struct {
	lanes              []int16
	epochs             []int64
	destinations, keys []string
}

func newSettling(s localtable.Settlement) *settling {
	epochs := make(map[int]int64, len(s.Lanes))
	for _, lane := range s.Lanes {
		epochs[lane.Number] = lane.Epoch
	}
	plan := &settling{}
	for _, result := range s.Results {
		epoch, ours := epochs[result.Row.Lane]
		if !ours {
			continue
		}
		switch result.Fate {
		case localtable.Delivered:
			plan.delivered.add(result.Row, epoch)
		case localtable.Retry, localtable.Dead:
			plan.failed.add(result.Row, epoch)
			var after *int64
			if result.Fate == localtable.Retry {
				after = new(microseconds(result.After))
			}
			plan.afters = append(plan.afters, after)
			plan.errors, plan.classes = append(plan.errors, text(result.Error)), append(plan.classes, text(result.Class))
		case localtable.Parked:
			plan.parked.add(result.Row, epoch)
		}
		settled := result.Fate == localtable.Delivered || result.Fate == localtable.Dead && !s.DeadHolds
		if settled && result.Row.Message.Key != "" && result.Row.Revision&3 == stateRetry {
			plan.heads.add(result.Row, epoch)
		}
	}
	return plan
}

func (r *results) add(row localtable.Row, epoch int64) {
	revision, state := unpack(row.Revision)
	r.lanes, r.epochs = append(r.lanes, int16(row.Lane)), append(r.epochs, epoch)
	r.destinations, r.states = append(r.destinations, row.Destination), append(r.states, state)
	r.seqs, r.revisions = append(r.seqs, row.Seq), append(r.revisions, revision)
}

func (r *results) args(owner string) []any {
	return []any{owner, r.lanes, r.epochs, r.destinations, r.states, r.seqs, r.revisions}
}

func (h *heads) add(row localtable.Row, epoch int64) {
	h.lanes, h.epochs = append(h.lanes, int16(row.Lane)), append(h.epochs, epoch)
	h.destinations, h.keys = append(h.destinations, row.Destination), append(h.keys, row.Message.Key)
}

func (s *settling) empty() bool {
	return len(s.delivered.seqs)+len(s.failed.seqs)+len(s.parked.seqs) == 0
}

// lanes are those of the rows, not all that the owner holds: a small batch locks few.
func (s *settling) lanes() []int16 {
	lanes := slices.Concat(s.delivered.lanes, s.failed.lanes, s.parked.lanes)
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// text makes a broker's words fit for a text column, which takes no NUL and no broken UTF-8.
func text(words string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(words, "\uFFFD"), "\x00", "\uFFFD")
}

package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

// tableStatusSQL goes through the index of the ready rows once, however much it tells of them: while someone holds an old snapshot,
// every entry of what was delivered since costs a look at its row. A lane's oldest row is the one with its first seq. OFFSET 0
// keeps the planner from going through all rows to find those.
const tableStatusSQL = `
WITH ready AS MATERIALIZED (
    SELECT destination, lane, count(*) AS rows, min(seq) AS first FROM txmsg_message GROUP BY destination, lane
), timed AS MATERIALIZED (
    SELECT destination, state, count(*) AS rows, min(since) FILTER (WHERE due_at <= (SELECT clock_timestamp()) AND isfinite(since)) AS since
    FROM (SELECT destination, state, due_at, CASE state WHEN 'waiting' THEN due_at ELSE created_at END AS since
        FROM txmsg_held WHERE state IN ('waiting', 'retry')) h
    GROUP BY destination, state
), unsent (since) AS (
    SELECT m.created_at FROM ready r CROSS JOIN LATERAL (
        SELECT created_at FROM txmsg_message m WHERE m.destination = r.destination AND m.lane = r.lane AND m.seq = r.first OFFSET 0) m
    UNION ALL
    SELECT since FROM timed
)
SELECT coalesce((SELECT sum(rows) FROM ready), 0)::bigint,
    coalesce((SELECT sum(rows) FROM timed WHERE state = 'waiting'), 0)::bigint,
    coalesce((SELECT sum(rows) FROM timed WHERE state = 'retry'), 0)::bigint,
    (SELECT count(*) FROM txmsg_held WHERE state = 'parked'), (SELECT count(*) FROM txmsg_held WHERE state = 'dead'),
    (SELECT coalesce(extract(epoch FROM greatest(clock_timestamp() - min(since) FILTER (WHERE isfinite(since)), interval '0')), 0)::float8
        FROM unsent),
    ARRAY(SELECT destination::text COLLATE "C" FROM ready UNION SELECT destination FROM timed ORDER BY 1)`

// Status implements [localtable.Store].
func (db *DB) Status(ctx context.Context) (localtable.Status, error) {
	var status localtable.Status
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		batch.Queue(db.sql(tableStatusSQL)).QueryRow(func(row pgx.Row) error {
			var age float64
			err := row.Scan(&status.Ready, &status.Waiting, &status.Retry, &status.Parked, &status.Dead, &age, &status.Destinations)
			status.OldestUnsent = time.Duration(age * float64(time.Second))
			return err
		})
		batch.Queue(db.sql(oldestSnapshotSQL)).QueryRow(func(row pgx.Row) error {
			var age float64
			err := row.Scan(&age)
			status.OldestSnapshot = time.Duration(age * float64(time.Second))
			return err
		})
	})
	if err != nil {
		return localtable.Status{}, fmt.Errorf("postgres: status: %w", err)
	}
	return status, nil
}

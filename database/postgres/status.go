package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

// oldestSQL asks for the oldest ready row at the front of every lane. It goes from destination to destination to know
// them, and tells which there are.
const (
	countReadySQL = `SELECT count(*) FROM txmsg_message`

	countHeldSQL = `SELECT count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'retry'),
    count(*) FILTER (WHERE state = 'parked'), count(*) FILTER (WHERE state = 'dead')
FROM (SELECT state FROM txmsg_held WHERE state IN ('waiting', 'retry') UNION ALL
    SELECT 'parked' FROM txmsg_held WHERE state = 'parked' UNION ALL
    SELECT 'dead' FROM txmsg_held WHERE state = 'dead') h`

	oldestSQL = `
WITH RECURSIVE d (destination) AS (
    (SELECT destination FROM txmsg_message ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT n.destination FROM d CROSS JOIN LATERAL (
        SELECT m.destination FROM txmsg_message m WHERE m.destination > d.destination ORDER BY m.destination LIMIT 1) n
), h (destination) AS (
    (SELECT destination FROM txmsg_held WHERE state IN ('waiting', 'retry') ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT n.destination FROM h CROSS JOIN LATERAL (
        SELECT m.destination FROM txmsg_held m
        WHERE m.state IN ('waiting', 'retry') AND m.destination > h.destination ORDER BY m.destination LIMIT 1) n
), unsent (since) AS (
    SELECT f.created_at FROM d CROSS JOIN (SELECT lane FROM txmsg_lane) l CROSS JOIN LATERAL (
        SELECT m.created_at FROM txmsg_message m
        WHERE m.destination = d.destination AND m.lane = l.lane ORDER BY m.seq LIMIT 1) f
    UNION ALL
    SELECT CASE h.state WHEN 'waiting' THEN h.due_at ELSE h.created_at END
    FROM txmsg_held h WHERE h.state IN ('waiting', 'retry') AND h.due_at <= (SELECT clock_timestamp())
)
SELECT coalesce(extract(epoch FROM greatest(clock_timestamp() - min(since) FILTER (WHERE isfinite(since)), interval '0')), 0)::float8,
    ARRAY(SELECT destination::text COLLATE "C" FROM d UNION SELECT destination FROM h ORDER BY 1)
FROM unsent`
)

// Status implements [localtable.Store].
func (db *DB) Status(ctx context.Context) (localtable.Status, error) {
	var status localtable.Status
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		batch.Queue(db.sql(countReadySQL)).QueryRow(func(row pgx.Row) error { return row.Scan(&status.Ready) })
		batch.Queue(db.sql(countHeldSQL)).QueryRow(func(row pgx.Row) error {
			return row.Scan(&status.Waiting, &status.Retry, &status.Parked, &status.Dead)
		})
		batch.Queue(db.sql(oldestSQL)).QueryRow(func(row pgx.Row) error {
			var age float64
			err := row.Scan(&age, &status.Destinations)
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

package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

// A lane is held by an owner for as long as the owner lives, so that a renewal writes one row. The row of an instance is
// the lock on its being alive: its owner locks it to renew, and another one to bury it, which it does only to a row whose
// time is over and which nobody locks. None of these statements waits for a lane: a session that is stuck in a
// settlement must not keep others from renewing.
const (
	reportSQL = `INSERT INTO txmsg_instance (owner, expires_at) VALUES ($1, clock_timestamp() + $2 * interval '1 second')
ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at`

	incarnateSQL = `INSERT INTO txmsg_incarnation DEFAULT VALUES ON CONFLICT DO NOTHING`

	burySQL = `WITH gone AS MATERIALIZED (
    SELECT owner FROM txmsg_instance WHERE expires_at <= clock_timestamp() AND owner <> $1 FOR UPDATE SKIP LOCKED
), free AS MATERIALIZED (
    SELECT l.lane FROM txmsg_lane l WHERE l.owner IN (SELECT owner FROM gone) FOR NO KEY UPDATE SKIP LOCKED
), freed AS (
    UPDATE txmsg_lane l SET owner = NULL FROM free WHERE l.lane = free.lane
), buried AS (
    DELETE FROM txmsg_instance i USING gone WHERE i.owner = gone.owner AND NOT EXISTS (
        SELECT FROM txmsg_lane l WHERE l.owner = i.owner AND l.lane NOT IN (SELECT lane FROM free))
)
SELECT count(*), clock_timestamp() FROM free`

	// Of the live owners in the order of their names, the first ones have the lanes that cannot be shared evenly.
	shareSQL = `SELECT (lanes / live + CASE WHEN before < lanes % live THEN 1 ELSE 0 END)::int AS share
FROM (SELECT count(*) AS lanes FROM txmsg_lane) l, (
    SELECT count(*) AS live, count(*) FILTER (WHERE owner < $1) AS before
    FROM txmsg_instance WHERE expires_at > clock_timestamp() OR owner = $1) i`

	takeSQL = `WITH taken AS MATERIALIZED (
    SELECT lane FROM txmsg_lane WHERE owner IS NULL ORDER BY random()
    LIMIT greatest(0, (` + shareSQL + `) - (SELECT count(*) FROM txmsg_lane WHERE owner = $1)) FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE txmsg_lane l SET owner = $1, epoch = l.epoch + 1 FROM taken WHERE l.lane = taken.lane`

	heldSQL = `SELECT l.lane, l.epoch, s.share FROM txmsg_lane l, (` + shareSQL + `) s WHERE l.owner = $1 ORDER BY l.lane`
)

// Lease implements [localtable.Store].
func (db *DB) Lease(ctx context.Context, owner string, ttl time.Duration) (localtable.Lease, error) {
	var lease localtable.Lease
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(db.sql(reportSQL), owner, ttl.Seconds())
		batch.Queue(db.sql(incarnateSQL))
		batch.Queue(db.sql(burySQL), owner).QueryRow(func(row pgx.Row) error { return row.Scan(&lease.Expired, &lease.Now) })
		batch.Queue(db.sql(takeSQL), owner)
		batch.Queue(db.sql(heldSQL), owner).Query(func(rows pgx.Rows) error {
			var lane localtable.Lane
			var share int
			_, err := pgx.ForEachRow(rows, []any{&lane.Number, &lane.Epoch, &share}, func() error {
				lease.Lanes = append(lease.Lanes, lane)
				return nil
			})
			lease.Surplus = max(0, len(lease.Lanes)-share)
			return err
		})
	})
	if err != nil {
		return localtable.Lease{}, fmt.Errorf("postgres: lease lanes: %w", err)
	}
	return lease, nil
}

const (
	lockHeldSQL = `SELECT FROM txmsg_lane WHERE owner = $1 ORDER BY lane FOR NO KEY UPDATE`

	releaseSQL = `UPDATE txmsg_lane l SET owner = NULL
FROM unnest($2::smallint[], $3::bigint[]) AS mine (lane, epoch)
WHERE l.lane = mine.lane AND l.owner = $1 AND l.epoch = mine.epoch`

	leaveSQL      = `DELETE FROM txmsg_instance WHERE owner = $1`
	releaseAllSQL = `UPDATE txmsg_lane SET owner = NULL WHERE owner = $1`
)

// Release implements [localtable.Store].
func (db *DB) Release(ctx context.Context, owner string, lanes ...localtable.Lane) error {
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		if len(lanes) == 0 {
			batch.Queue(db.sql(leaveSQL), owner)
			batch.Queue(db.sql(lockHeldSQL), owner)
			batch.Queue(db.sql(releaseAllSQL), owner)
			return
		}
		numbers, epochs := columns(lanes)
		batch.Queue(db.sql(lockLanesSQL), numbers, owner)
		batch.Queue(db.sql(releaseSQL), owner, numbers, epochs)
	})
	if err != nil {
		return fmt.Errorf("postgres: release lanes: %w", err)
	}
	return nil
}

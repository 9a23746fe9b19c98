package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmsg/txmsg-go/localtable"
)

// sweepSQL goes from key to key of the parked rows, with one look at each however many rows it has.
const sweepSQL = `
WITH RECURSIVE k (lane, destination, key) AS (
    SELECT p.lane, p.destination, p.key
    FROM unnest($2::smallint[], $3::bigint[]) AS mine (lane, epoch)
        JOIN txmsg_lane l ON l.lane = mine.lane AND l.owner = $1 AND l.epoch = mine.epoch
        CROSS JOIN LATERAL (
            SELECT m.lane, m.destination, m.key FROM txmsg_held m
            WHERE m.lane = l.lane AND m.state = 'parked'
            ORDER BY m.destination, m.key LIMIT 1) p
    UNION ALL
    SELECT p.lane, p.destination, p.key
    FROM k CROSS JOIN LATERAL (
        SELECT m.lane, m.destination, m.key FROM txmsg_held m
        WHERE m.lane = k.lane AND m.state = 'parked' AND (m.destination, m.key) > (k.destination, k.key)
        ORDER BY m.destination, m.key LIMIT 1) p
), next AS MATERIALIZED (
    SELECT n.* FROM k CROSS JOIN LATERAL (` + freeSQL + ` LIMIT $4) n LIMIT $4
), ` + freeNextSQL

// Sweep implements [localtable.Store].
func (db *DB) Sweep(ctx context.Context, owner string, lanes []localtable.Lane, limit int) (int, error) {
	if len(lanes) == 0 {
		return 0, nil
	}
	swept := 0
	numbers, epochs := columns(lanes)
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		batch.Queue(db.sql(lockLanesSQL), numbers, owner)
		batch.Queue(db.sql(sweepSQL), owner, numbers, epochs, limit).Exec(func(tag pgconn.CommandTag) error {
			swept = int(tag.RowsAffected())
			return nil
		})
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: sweep: %w", err)
	}
	return swept, nil
}

func columns(lanes []localtable.Lane) (numbers []int16, epochs []int64) {
	for _, lane := range lanes {
		numbers, epochs = append(numbers, int16(lane.Number)), append(epochs, lane.Epoch)
	}
	return numbers, epochs
}

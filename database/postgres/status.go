package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

// In tableStatusSQL the planner chooses, unlike in the statements that look for single rows: to count takes every row, and a walk
// through the table costs less than going from index entries to rows, unless most pages are empty. Infinite times are another program's
// and have no age.
const tableStatusSQL = `
SELECT destination::text, 'ready', count(*), ` + oldestSQL + `
FROM (SELECT destination, created_at AS since FROM txmsg_ready) m GROUP BY destination
UNION ALL
SELECT destination::text, state, count(*), ` + oldestSQL + `
FROM (SELECT destination, state, CASE WHEN due_at <= (SELECT clock_timestamp()) THEN
        CASE state WHEN 'waiting' THEN due_at ELSE created_at END END AS since
    FROM txmsg_held WHERE state IN ('waiting', 'retry')) h GROUP BY destination, state
UNION ALL
SELECT NULL, 'parked', count(*), NULL FROM txmsg_held WHERE state = 'parked'
UNION ALL
SELECT NULL, 'dead', count(*), NULL FROM txmsg_held WHERE state = 'dead'`

const oldestSQL = `extract(epoch FROM clock_timestamp() - min(since) FILTER (WHERE isfinite(since)))::float8`

// Status implements [localtable.Store].
func (db *DB) Status(ctx context.Context) (localtable.Status, error) {
	var status localtable.Status
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(db.sql(tableStatusSQL)).Query(func(rows pgx.Rows) error { return collectStatus(rows, &status) })
		batch.Queue(db.sql(oldestSnapshotSQL)).QueryRow(func(row pgx.Row) error {
			var age float64
			err := row.Scan(&age)
			status.OldestSnapshot = seconds(age)
			return err
		})
	})
	if err != nil {
		return localtable.Status{}, fmt.Errorf("postgres: status: %w", err)
	}
	return status, nil
}

func collectStatus(rows pgx.Rows, status *localtable.Status) error {
	counts := map[string]*int64{
		"ready": &status.Ready, "waiting": &status.Waiting, "retry": &status.Retry, "parked": &status.Parked, "dead": &status.Dead,
	}
	var destination *string
	var state string
	var count int64
	var age *float64
	_, err := pgx.ForEachRow(rows, []any{&destination, &state, &count, &age}, func() error {
		*counts[state] += count
		if destination != nil && !slices.Contains(status.Destinations, *destination) {
			status.Destinations = append(status.Destinations, *destination)
		}
		if age != nil {
			status.OldestUnsent = max(status.OldestUnsent, seconds(*age))
		}
		return nil
	})
	slices.Sort(status.Destinations)
	return err
}

// seconds ends at 285 years, shortly before a Duration does.
func seconds(s float64) time.Duration { return time.Duration(min(s, 9e9) * float64(time.Second)) }

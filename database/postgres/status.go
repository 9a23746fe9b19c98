package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

// tableStatusSQL leaves the way to the planner, other than the statements that look for single rows: it goes through each table
// once, by the index where most pages are empty, else page by page, which is cheaper than looking from index entries at rows, be it
// because there are many or because someone holds an old snapshot. A time that is infinite is another program's, and none.
const tableStatusSQL = `
SELECT destination::text, 'ready', count(*), ` + oldestSQL + ` FROM (SELECT destination, created_at AS since FROM txmsg_message) m GROUP BY destination
UNION ALL
SELECT destination::text, state, count(*), ` + oldestSQL + ` FROM (
    SELECT destination, state, CASE WHEN due_at <= (SELECT clock_timestamp()) THEN CASE state WHEN 'waiting' THEN due_at ELSE created_at END END AS since
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

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

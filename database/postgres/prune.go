package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	partitionPrefix = "txmsg_delivered_"
	partitionDay    = "20060102"
	partitionsAhead = 2

	// A partition is not logged unless the configuration says so: the archive is there to look up what became of a message, and
	// no step of the delivery reads it. Logged, every message would be in the log twice.
	// Autovacuum comes after so many rows, and looks at those alone, for a search to read little that its index does not know yet.
	createPartitionSQL = `CREATE %s %s PARTITION OF txmsg_delivered FOR VALUES FROM ('%s') TO ('%s')
WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000)`
	partitionBound = "2006-01-02 00:00:00+00"

	partitionsSQL = `SELECT c.relname, date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC')
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'txmsg_delivered'::regclass ORDER BY c.relname`

	// To count a day's millions would take longer than the call may; a small partition may not have been estimated yet.
	partitionRowsSQL = `SELECT CASE WHEN reltuples > 100000 THEN reltuples::bigint ELSE (SELECT count(*) FROM %[1]s) END
FROM pg_class WHERE oid = '%[1]s'::regclass`

	// A definition waits for those who use the table, and everybody else waits behind it: so it does not wait long, and
	// is tried again by the next call.
	boundDefinitionSQL = `SELECT set_config('lock_timeout', '200', true)`
)

// PruneMessages implements [localtable.Store]. With a retention of a day or more a day's partition is dropped as a whole when
// its last row has expired, whatever limit is; with less, and where a partition is missing, rows are deleted.
func (db *DB) PruneMessages(ctx context.Context, retention time.Duration, limit int) (int, error) {
	partitions, today, err := db.partitions(ctx)
	if err != nil {
		return 0, fmt.Errorf("postgres: prune messages: %w", err)
	}
	db.prepare(ctx, partitions, today)
	pruned := 0
	for _, name := range partitions {
		day, dated := partitionTime(name)
		var count int
		switch whole := dated && retention >= 24*time.Hour; {
		case whole && today.Sub(day) >= retention+24*time.Hour:
			count, err = db.drop(ctx, name)
		case !whole && pruned < limit:
			count, err = db.deleteDelivered(ctx, name, retention, limit-pruned)
		}
		if err != nil {
			return pruned, fmt.Errorf("postgres: prune messages: %w", err)
		}
		pruned += count
	}
	return pruned, nil
}

// partitions returns the names of those there are, the oldest day first and the default last, and the day it is.
func (db *DB) partitions(ctx context.Context) (names []string, today time.Time, err error) {
	rows, err := db.pool.Query(ctx, db.sql(partitionsSQL))
	if err != nil {
		return nil, today, err
	}
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name, &today}, func() error {
		names = append(names, name)
		return nil
	})
	return names, today, err
}

func partitionTime(name string) (day time.Time, dated bool) {
	day, err := time.Parse(partitionDay, strings.TrimPrefix(name, partitionPrefix))
	return day, err == nil
}

// prepare makes the partitions of the days to come. One that cannot be made does no harm: its rows go to the default
// partition.
func (db *DB) prepare(ctx context.Context, names []string, today time.Time) {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	table := "UNLOGGED TABLE"
	if db.logged {
		table = "TABLE"
	}
	for ahead := range partitionsAhead + 1 {
		day := today.AddDate(0, 0, ahead)
		name := partitionPrefix + day.Format(partitionDay)
		if known[name] {
			continue
		}
		err := db.define(ctx, fmt.Sprintf(createPartitionSQL, table, name, day.Format(partitionBound), day.AddDate(0, 0, 1).Format(partitionBound)))
		switch sqlState(err) {
		case "", duplicateTable, lockNotAvailable, checkViolation, deadlockDetected:
			// another instance was faster, the table is in use, or the default partition has rows of this day
		default:
			db.logger.WarnContext(ctx, "partition was not made", "partition", name, "error", err)
		}
	}
}

// drop removes a partition and returns how many rows it had, about how many if they were many. One that is in use is left
// for the next call.
func (db *DB) drop(ctx context.Context, name string) (int, error) {
	var count int
	if err := db.pool.QueryRow(ctx, db.sql(fmt.Sprintf(partitionRowsSQL, name))).Scan(&count); err != nil {
		return 0, gone(err)
	}
	err := db.define(ctx, `DROP TABLE `+name)
	switch sqlState(err) {
	case lockNotAvailable, deadlockDetected:
		return 0, nil
	}
	if err != nil {
		return 0, gone(err)
	}
	return count, nil
}

// gone forgets an error that says that another instance has dropped the partition.
func gone(err error) error {
	if sqlState(err) == undefinedTable {
		return nil
	}
	return err
}

func (db *DB) define(ctx context.Context, statement string) error {
	return db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(boundDefinitionSQL)
		batch.Queue(db.sql(statement))
	})
}

func (db *DB) deleteDelivered(ctx context.Context, name string, retention time.Duration, limit int) (count int, err error) {
	statement := db.sql(`DELETE FROM ` + name + ` WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ` + name + ` WHERE delivered_at < clock_timestamp() - $1 * interval '1 second' LIMIT $2 FOR UPDATE SKIP LOCKED))`)
	err = db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(statement, retention.Seconds(), limit).Exec(func(tag pgconn.CommandTag) error {
			count = int(tag.RowsAffected())
			return nil
		})
	})
	return count, gone(err)
}

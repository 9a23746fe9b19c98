package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ checker.Store[pgx.Tx] = (*DB)(nil)

const (
	identitySQL = `SELECT id FROM txmsg_identity`
	recordSQL   = `INSERT INTO txmsg_half (id) VALUES ($1::text::uuid)`
	forgetSQL   = `DELETE FROM txmsg_half WHERE id = $1::text::uuid AND state = 'committed'`

	boundLockSQL = `SELECT set_config('lock_timeout', $1, true)`
	tombstoneSQL = `INSERT INTO txmsg_half (id, state) VALUES ($1::text::uuid, 'rolled_back') ON CONFLICT DO NOTHING`
	halfStateSQL = `SELECT state FROM txmsg_half WHERE id = $1::text::uuid`

	// The least UUIDv7 of a time: its milliseconds, and nothing after them.
	pruneHalvesSQL = `DELETE FROM txmsg_half WHERE id = ANY (ARRAY(
    SELECT id FROM txmsg_half
    WHERE id < (lpad(to_hex((extract(epoch FROM clock_timestamp() - $1 * interval '1 second') * 1000)::bigint), 12, '0')
        || repeat('0', 20))::uuid
    ORDER BY id LIMIT $2))`
)

// Identity implements [checker.Store].
func (db *DB) Identity(ctx context.Context) (string, error) {
	var id string
	if err := db.pool.QueryRow(ctx, db.sql(identitySQL)).Scan(&id); err != nil {
		return "", fmt.Errorf("postgres: identity: %w", err)
	}
	return id, nil
}

// Record implements [checker.Store].
func (db *DB) Record(ctx context.Context, tx pgx.Tx, halfID string) error {
	_, err := tx.Exec(ctx, db.sql(recordSQL), halfID)
	switch {
	case sqlState(err) == uniqueViolation:
		return fmt.Errorf("postgres: record half %s: %w: %w", halfID, txmsg.ErrLostRace, err)
	case err != nil:
		return fmt.Errorf("postgres: record half %s: %w", halfID, err)
	}
	return nil
}

// Forget implements [checker.Store].
func (db *DB) Forget(ctx context.Context, tx pgx.Tx, halfID string) error {
	if _, err := tx.Exec(ctx, db.sql(forgetSQL), halfID); err != nil {
		return fmt.Errorf("postgres: forget half %s: %w", halfID, err)
	}
	return nil
}

var errHalfVanished = errors.New("the half's record went away while it was asked for")

// Fence implements [checker.Store]. The INSERT waits for a transaction that has recorded the half. The state is read by
// a statement of its own, whose snapshot is younger than what the INSERT waited for.
func (db *DB) Fence(ctx context.Context, halfID string, wait time.Duration) (txmsg.Outcome, error) {
	inserted, state := false, ""
	err := db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(boundLockSQL, strconv.FormatInt(max(1, wait.Milliseconds()), 10))
		batch.Queue(db.sql(tombstoneSQL), halfID).Exec(func(tag pgconn.CommandTag) error {
			inserted = tag.RowsAffected() == 1
			return nil
		})
		batch.Queue(db.sql(halfStateSQL), halfID).QueryRow(func(row pgx.Row) error {
			if err := row.Scan(&state); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		})
	})
	switch {
	case sqlState(err) == lockNotAvailable:
		return txmsg.Unknown, nil
	case err != nil: // the tombstone's own commit may be unclear: it stands for certain only after nil
		return txmsg.Unknown, fmt.Errorf("postgres: fence half %s: %w", halfID, err)
	case !inserted && state == "committed":
		return txmsg.Committed, nil
	case inserted, state == "rolled_back":
		return txmsg.RolledBack, nil
	default:
		return txmsg.Unknown, fmt.Errorf("postgres: fence half %s: %w", halfID, errHalfVanished)
	}
}

// PruneHalves implements [checker.Store].
func (db *DB) PruneHalves(ctx context.Context, retention time.Duration, limit int) (int, error) {
	tag, err := db.pool.Exec(ctx, db.sql(pruneHalvesSQL), retention.Seconds(), limit)
	if err != nil {
		return 0, fmt.Errorf("postgres: prune halves: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// lane is the number of the one lane.
const lane = 0

func isOurs(l localtable.Lane) bool { return l.Number == lane }

// Lease implements [localtable.Store]. There is one lane: the first live owner to ask for it keeps it as long as it renews.
func (db *DB) Lease(ctx context.Context, owner string, ttl time.Duration) (localtable.Lease, error) {
	var lease localtable.Lease
	err := db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM txmsg_instance WHERE expires_at <= `+now)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO txmsg_instance (owner, expires_at) VALUES (?1, `+now+` + ?2)
			ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at`, owner, milliseconds(ttl))
		if err != nil {
			return err
		}
		const expired = `SELECT count(*), ` + now + ` FROM txmsg_lane WHERE owner IS NOT NULL AND owner <> ? AND owner NOT IN (SELECT owner FROM txmsg_instance)`
		var ms int64
		if err := tx.QueryRowContext(ctx, expired, owner).Scan(&lease.Expired, &ms); err != nil {
			return err
		}
		lease.Now = time.UnixMilli(ms)
		var epoch int64
		err = tx.QueryRowContext(ctx, `UPDATE txmsg_lane SET epoch = epoch + (owner IS NOT ?1), owner = ?1
			WHERE owner IS NULL OR owner = ?1 OR owner NOT IN (SELECT owner FROM txmsg_instance) RETURNING epoch`,
			owner).Scan(&epoch)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		lease.Lanes = []localtable.Lane{{Number: lane, Epoch: epoch}}
		return err
	})
	if err != nil {
		return localtable.Lease{}, fmt.Errorf("sqlite: lease lanes: %w", err)
	}
	return lease, nil
}

// Release implements [localtable.Store].
func (db *DB) Release(ctx context.Context, owner string, lanes ...localtable.Lane) error {
	err := db.write(ctx, func(tx *sql.Tx) error {
		if len(lanes) == 0 {
			if _, err := tx.ExecContext(ctx, `DELETE FROM txmsg_instance WHERE owner = ?`, owner); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `UPDATE txmsg_lane SET owner = NULL WHERE owner = ?`, owner)
			return err
		}
		for _, l := range lanes {
			_, err := tx.ExecContext(ctx, `UPDATE txmsg_lane SET owner = NULL
				WHERE lane = ? AND owner = ? AND epoch = ?`, l.Number, owner, l.Epoch)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sqlite: release lanes: %w", err)
	}
	return nil
}

// holds reports whether owner holds the lane in the epoch that lanes give. tx has the write lock, so the answer stands
// until tx ends.
func holds(ctx context.Context, tx *sql.Tx, owner string, lanes []localtable.Lane) (bool, error) {
	for _, l := range lanes {
		if !isOurs(l) {
			continue
		}
		var held bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM txmsg_lane WHERE lane = ? AND owner = ? AND epoch = ?)`,
			l.Number, owner, l.Epoch).Scan(&held)
		return held, err
	}
	return false, nil
}

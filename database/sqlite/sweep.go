package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/txmsg/txmsg-go/localtable"
)

// sweepMessages visits each key that has parked rows once, and of each only the rows that nothing holds back: what is
// parked behind a head that still stands costs nothing.
const sweepMessages = `
WITH RECURSIVE parked (destination, key) AS (
    SELECT * FROM (SELECT destination, key FROM txmsg_message WHERE state = 'parked' ORDER BY destination, key LIMIT 1)
    UNION ALL
    SELECT n.destination, n.key FROM parked CROSS JOIN txmsg_message n ON n.seq = coalesce((
        SELECT seq FROM txmsg_message
        WHERE state = 'parked' AND destination = parked.destination AND key > parked.key ORDER BY key LIMIT 1), (
        SELECT seq FROM txmsg_message
        WHERE state = 'parked' AND destination > parked.destination ORDER BY destination, key LIMIT 1))
)
UPDATE txmsg_message SET state = 'ready', revision = revision + 1 WHERE seq IN (
    SELECT m.seq FROM parked CROSS JOIN txmsg_message m
    ON m.state = 'parked' AND m.destination = parked.destination AND m.key = parked.key
    AND m.seq < coalesce((
        SELECT min(h.seq) FROM txmsg_message h WHERE h.holds AND h.destination = parked.destination AND h.key = parked.key),
        9223372036854775807)
    ORDER BY m.seq LIMIT ?)`

// Sweep implements [localtable.Store].
func (db *DB) Sweep(ctx context.Context, owner string, lanes []localtable.Lane, limit int) (int, error) {
	var swept int64
	err := db.write(ctx, func(tx *sql.Tx) error {
		held, err := holds(ctx, tx, owner, lanes)
		if err != nil || !held {
			return err
		}
		result, err := tx.ExecContext(ctx, sweepMessages, limit)
		if err != nil {
			return err
		}
		swept, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sqlite: sweep parked messages: %w", err)
	}
	return int(swept), nil
}

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

const (
	pruneMessages = `DELETE FROM txmsg_delivered WHERE seq IN (
		SELECT seq FROM txmsg_delivered WHERE delivered_at < ` + now + ` - ? ORDER BY delivered_at LIMIT ?)`
	pruneInbox = `DELETE FROM txmsg_inbox WHERE (consumer, message_id) IN (
		SELECT consumer, message_id FROM txmsg_inbox WHERE seen_at < ` + now + ` - ? ORDER BY seen_at LIMIT ?)`
)

// PruneMessages implements [localtable.Store].
func (db *DB) PruneMessages(ctx context.Context, retention time.Duration, limit int) (int, error) {
	return db.prune(ctx, "delivered messages", pruneMessages, retention, limit)
}

// PruneInbox implements [consumer.Store].
func (db *DB) PruneInbox(ctx context.Context, retention time.Duration, limit int) (int, error) {
	return db.prune(ctx, "inbox", pruneInbox, retention, limit)
}

func (db *DB) prune(ctx context.Context, what, query string, retention time.Duration, limit int) (int, error) {
	var pruned int64
	err := db.write(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, query, milliseconds(retention), limit)
		if err != nil {
			return err
		}
		pruned, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sqlite: prune %s: %w", what, err)
	}
	return int(pruned), nil
}

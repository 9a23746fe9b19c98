package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/txmsg/txmsg-go/consumer"
)

// Mark implements [consumer.Store]. Since tx has the only write lock, a simultaneous Mark waits before its BEGIN.
func (db *DB) Mark(ctx context.Context, tx *sql.Tx, consumer, messageID string) (first bool, err error) {
	result, err := tx.ExecContext(ctx,
		`INSERT INTO txmsg_inbox (consumer, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, consumer, messageID)
	if err != nil {
		return false, fmt.Errorf("sqlite: mark message: %w", err)
	}
	count, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("sqlite: mark message: %w", err)
	}
	return count == 1, nil
}

// Bury implements [consumer.Store].
func (db *DB) Bury(ctx context.Context, letter consumer.DeadLetter) error {
	history, err := json.Marshal(append([]string{}, letter.Errors...)) // never null
	if err != nil {
		return fmt.Errorf("sqlite: bury message: %w", err)
	}
	m, source := letter.Message, letter.Source
	err = db.writeDurably(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO txmsg_dead_letter (consumer, message_id, topic, key, type, sequence,
			headers, body, broker, source_topic, partition, "offset", attempts, errors)
			VALUES (?, ?, ?, ?, ?, ?, ?, coalesce(?, x''), ?, ?, ?, ?, ?, ?)`,
			letter.Consumer, m.ID, m.Topic, m.Key, m.Type, m.Sequence, encodeHeaders(m.Headers), m.Body,
			source.Broker, source.Topic, source.Partition, source.Offset, letter.Attempts, string(history))
		return err
	})
	if err != nil {
		return fmt.Errorf("sqlite: bury message: %w", err)
	}
	return nil
}

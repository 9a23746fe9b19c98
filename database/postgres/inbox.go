package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ consumer.Store[pgx.Tx] = (*DB)(nil)

const (
	markSQL = `INSERT INTO txmsg_inbox (consumer, message_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`

	buryLetterSQL = `INSERT INTO txmsg_dead_letter
    (consumer, message_id, topic, key, type, sequence, headers, body, broker, source_topic, partition, "offset", attempts, errors)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (md5(consumer), md5(message_id)) DO UPDATE SET (buried_at, topic, key, type, sequence, headers, body, broker,
    source_topic, partition, "offset", attempts, errors) = (excluded.buried_at, excluded.topic, excluded.key, excluded.type,
    excluded.sequence, excluded.headers, excluded.body, excluded.broker, excluded.source_topic, excluded.partition,
    excluded."offset", excluded.attempts, excluded.errors)`

	pruneInboxSQL = `DELETE FROM txmsg_inbox WHERE (consumer, message_id) IN (
    SELECT consumer, message_id FROM txmsg_inbox WHERE seen_at < clock_timestamp() - $1 * interval '1 second'
    ORDER BY seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

// Mark implements [consumer.Store].
func (db *DB) Mark(ctx context.Context, tx pgx.Tx, consumer, messageID string) (bool, error) {
	tag, err := tx.Exec(ctx, db.sql(markSQL), consumer, inboxID(messageID))
	if err != nil {
		return false, fmt.Errorf("postgres: mark message: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// inboxID is the id, or its digest if it is one that only another producer can have made: too long for an index entry, or
// no text.
func inboxID(id string) string {
	if len(id) <= txmsg.MaxIDBytes && text(id) == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Bury implements [consumer.Store].
func (db *DB) Bury(ctx context.Context, letter consumer.DeadLetter) error {
	m, source := letter.Message, letter.Source
	errors := letter.Errors
	if errors == nil {
		errors = []string{}
	}
	_, err := db.pool.Exec(ctx, db.sql(buryLetterSQL), letter.Consumer, m.ID, m.Topic, m.Key, m.Type, m.Sequence, headers(m), body(m),
		source.Broker, source.Topic, source.Partition, source.Offset, letter.Attempts, errors)
	if err != nil {
		return fmt.Errorf("postgres: bury message: %w", err)
	}
	return nil
}

// PruneInbox implements [consumer.Store].
func (db *DB) PruneInbox(ctx context.Context, retention time.Duration, limit int) (int, error) {
	tag, err := db.pool.Exec(ctx, db.sql(pruneInboxSQL), retention.Seconds(), limit)
	if err != nil {
		return 0, fmt.Errorf("postgres: prune inbox: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

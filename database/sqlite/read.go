package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// readMessages takes turns between ready rows and those whose time has come, so that a backlog of the one does not keep
// the other waiting. The conditions on state are written as in the indexes: SQLite uses a partial index for no other.
const readMessages = `
WITH picked (seq) AS MATERIALIZED (
    SELECT seq FROM (
        SELECT seq, row_number() OVER () AS turn FROM (
            SELECT seq FROM txmsg_message WHERE state IN ('waiting', 'retry') AND destination = ?1 AND due_at <= ` + now + `
            ORDER BY due_at LIMIT ?2)
        UNION ALL
        SELECT seq, row_number() OVER () FROM (
            SELECT seq FROM txmsg_message WHERE state = 'ready' AND destination = ?1 ORDER BY seq LIMIT ?2)
    ) ORDER BY turn LIMIT ?2
)
SELECT m.seq, m.revision, m.id, m.topic, m.key, m.type, m.sequence, m.headers, m.body, m.delayed, m.attempts, m.created_at, m.holds,
    m.key <> '' AND NOT m.delayed AND (
        EXISTS (SELECT 1 FROM txmsg_message h
            WHERE h.holds AND h.destination = m.destination AND h.key = m.key AND h.seq < m.seq AND h.seq NOT IN picked)
        OR EXISTS (SELECT 1 FROM txmsg_message p
            WHERE p.state = 'parked' AND p.destination = m.destination AND p.key = m.key AND p.seq < m.seq))
FROM picked CROSS JOIN txmsg_message m ON m.seq = picked.seq
ORDER BY m.seq`

// readOthers takes the first ready row of each key: of a group's columns SQLite takes those of the row with the minimum.
const readOthers = `
WITH first (seq, topic) AS MATERIALIZED (
    SELECT min(seq), topic FROM txmsg_message WHERE state = 'ready' AND destination = ?1 GROUP BY CASE key WHEN '' THEN seq ELSE key END
), picked (seq) AS MATERIALIZED (
    SELECT seq FROM first WHERE topic NOT IN (SELECT value FROM json_each(?3)) LIMIT ?2
)
SELECT m.seq, m.revision, m.id, m.topic, m.key, m.type, m.sequence, m.headers, m.body, m.delayed, m.attempts, m.created_at, m.holds,
    m.key <> '' AND (
        EXISTS (SELECT 1 FROM txmsg_message h
            WHERE h.holds AND h.destination = m.destination AND h.key = m.key AND h.seq < m.seq)
        OR EXISTS (SELECT 1 FROM txmsg_message p
            WHERE p.state = 'parked' AND p.destination = m.destination AND p.key = m.key AND p.seq < m.seq))
FROM picked CROSS JOIN txmsg_message m ON m.seq = picked.seq
ORDER BY m.seq`

// Read implements [localtable.Store]. It does not wait for writers.
func (db *DB) Read(ctx context.Context, destination string, lanes []localtable.Lane, limit int) ([]localtable.Row, error) {
	rows, err := db.rows(ctx, readMessages, destination, lanes, limit)
	if err != nil {
		return nil, fmt.Errorf("sqlite: read messages: %w", err)
	}
	return rows, nil
}

// Others implements [localtable.Store]. It does not wait for writers.
func (db *DB) Others(ctx context.Context, destination string, lanes []localtable.Lane, topics []string, limit int) ([]localtable.Row, error) {
	names, err := json.Marshal(topics)
	if err != nil {
		return nil, fmt.Errorf("sqlite: read messages of other topics: %w", err)
	}
	rows, err := db.rows(ctx, readOthers, destination, lanes, limit, string(names))
	if err != nil {
		return nil, fmt.Errorf("sqlite: read messages of other topics: %w", err)
	}
	return rows, nil
}

func (db *DB) rows(ctx context.Context, query, destination string, lanes []localtable.Lane, limit int, more ...any) ([]localtable.Row, error) {
	if !slices.ContainsFunc(lanes, isOurs) {
		return nil, nil
	}
	found, err := db.pool.QueryContext(ctx, query, append([]any{destination, limit}, more...)...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows []localtable.Row
	for found.Next() {
		row, err := scanRow(found, destination)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

func scanRow(found *sql.Rows, destination string) (localtable.Row, error) {
	row := localtable.Row{Lane: lane, Destination: destination}
	m := &row.Message
	var headers sql.NullString
	var created int64
	err := found.Scan(&row.Seq, &row.Revision, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence, &headers, &m.Body,
		&row.Delayed, &row.Attempts, &created, &row.Head, &row.Follower)
	if err != nil {
		return row, err
	}
	if m.Body == nil {
		m.Body = []byte{}
	}
	row.Created = time.UnixMilli(created)
	if m.Headers, err = decodeHeaders(headers.String); err != nil {
		return row, fmt.Errorf("message %s: %w", m.ID, err)
	}
	return row, nil
}

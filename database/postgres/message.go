package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ localtable.Store[pgx.Tx] = (*DB)(nil)

const (
	// One message without a delay is what most transactions write; it needs no arrays.
	insertOneSQL = `INSERT INTO txmsg_message (destination, id, topic, key, type, sequence, headers, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

	// seq is given to the rows after they are sorted.
	insertManySQL = `INSERT INTO txmsg_message (destination, id, topic, key, type, sequence, headers, body, state, delayed, due_at)
SELECT m.destination, m.id, m.topic, m.key, m.type, m.sequence, m.headers, m.body,
    CASE WHEN m.delay > 0 THEN 'waiting' ELSE 'ready' END, m.delay > 0,
    CASE WHEN m.delay > 0 THEN clock_timestamp() + m.delay * interval '1 microsecond' END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::jsonb[], $8::bytea[], $9::bigint[])
    WITH ORDINALITY AS m (destination, id, topic, key, type, sequence, headers, body, delay, place)
ORDER BY m.place`
)

// Insert implements [localtable.Store].
func (db *DB) Insert(entries []localtable.Entry) []txmsg.Statement {
	switch {
	case len(entries) == 0:
		return nil
	case len(entries) == 1 && entries[0].Message.Delay == 0:
		m := entries[0].Message
		return []txmsg.Statement{{SQL: db.sql(insertOneSQL), Args: []any{
			entries[0].Destination, m.ID, m.Topic, m.Key, m.Type, sequence(m), headers(m), body(m),
		}}}
	}
	n := len(entries)
	destinations, ids, topics, keys, types := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	sequences, delays := make([]*int64, n), make([]int64, n)
	objects, bodies := make([]*string, n), make([][]byte, n)
	for i, entry := range entries {
		m := entry.Message
		destinations[i], ids[i], topics[i], keys[i], types[i] = entry.Destination, m.ID, m.Topic, m.Key, m.Type
		sequences[i], objects[i], bodies[i], delays[i] = sequence(m), headers(m), body(m), microseconds(m.Delay)
	}
	return []txmsg.Statement{{SQL: db.sql(insertManySQL), Args: []any{
		destinations, ids, topics, keys, types, sequences, objects, bodies, delays,
	}}}
}

// sequence is null when it is not used, which costs no space.
func sequence(m txmsg.Message) *int64 {
	if m.Sequence == 0 {
		return nil
	}
	return &m.Sequence
}

// headers is null when there are none. It is text, which every mode of pgx can send.
func headers(m txmsg.Message) *string {
	if len(m.Headers) == 0 {
		return nil
	}
	object, _ := json.Marshal(m.Headers) // a map of texts has no error
	return new(string(object))
}

func body(m txmsg.Message) []byte {
	if m.Body == nil {
		return []byte{}
	}
	return m.Body
}

// microseconds rounds up: what is due in less is not due at once.
func microseconds(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

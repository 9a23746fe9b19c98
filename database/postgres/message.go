package postgres

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var _ localtable.Store[pgx.Tx] = (*DB)(nil)

const (
	// One message is what most transactions write; it needs no arrays.
	insertOneSQL = `INSERT INTO txmsg_ready (lane, destination, id, topic, key, type, sequence, headers, body)
VALUES (hashtext($9) & 63, $1, $2, $3, $4, $5, $6, $7, $8)`

	// seq is given to the rows after they are sorted.
	insertManySQL = `INSERT INTO txmsg_ready (lane, destination, id, topic, key, type, sequence, headers, body)
SELECT hashtext(CASE m.key WHEN '' THEN m.id ELSE m.key END) & 63, m.destination, m.id, m.topic, m.key, m.type, m.sequence, m.headers, m.body
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::jsonb[], $8::bytea[])
    WITH ORDINALITY AS m (destination, id, topic, key, type, sequence, headers, body, place)
ORDER BY m.place`

	insertDelayedSQL = `INSERT INTO txmsg_held (destination, id, topic, key, type, sequence, headers, body, due_at)
SELECT m.destination, m.id, m.topic, m.key, m.type, m.sequence, m.headers, m.body, clock_timestamp() + m.delay * interval '1 microsecond'
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::jsonb[], $8::bytea[], $9::bigint[])
    WITH ORDINALITY AS m (destination, id, topic, key, type, sequence, headers, body, delay, place)
ORDER BY m.place`
)

// Insert implements [localtable.Store].
func (db *DB) Insert(entries []localtable.Entry) []txmsg.Statement {
	if len(entries) == 1 && entries[0].Message.Delay == 0 {
		return []txmsg.Statement{{SQL: db.sql(insertOneSQL), Args: only(entries[0])}}
	}
	var ready, delayed written
	for _, entry := range entries {
		if entry.Message.Delay > 0 {
			delayed.add(entry)
		} else {
			ready.add(entry)
		}
	}
	var statements []txmsg.Statement
	if len(ready.ids) > 0 {
		statements = append(statements, txmsg.Statement{SQL: db.sql(insertManySQL), Args: ready.args()})
	}
	if len(delayed.ids) > 0 {
		statements = append(statements, txmsg.Statement{SQL: db.sql(insertDelayedSQL), Args: append(delayed.args(), delayed.delays)})
	}
	return statements
}

// written are entries as the columns of an INSERT.
type written struct {
	destinations, ids, topics, keys, types []string
	sequences                              []*int64
	headers                                []*string
	bodies                                 [][]byte
	delays                                 []int64
}

func (w *written) add(entry localtable.Entry) {
	m := entry.Message
	w.destinations, w.ids, w.topics = append(w.destinations, entry.Destination), append(w.ids, m.ID), append(w.topics, m.Topic)
	w.keys, w.types, w.sequences = append(w.keys, m.Key), append(w.types, m.Type), append(w.sequences, sequence(m))
	w.headers, w.bodies, w.delays = append(w.headers, headers(m)), append(w.bodies, body(m)), append(w.delays, microseconds(m.Delay))
}

func (w *written) args() []any {
	return []any{w.destinations, w.ids, w.topics, w.keys, w.types, w.sequences, w.headers, w.bodies}
}

func only(entry localtable.Entry) []any {
	m := entry.Message
	return []any{entry.Destination, m.ID, m.Topic, m.Key, m.Type, sequence(m), headers(m), body(m), cmp.Or(m.Key, m.ID)}
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

// decodeHeaders reads what headers wrote. Another language's program may have put in what is no text: a value arrives as
// its JSON then, since one odd row must not stop the batch it is in.
func decodeHeaders(object []byte) map[string]string {
	if object == nil {
		return nil
	}
	var texts map[string]string
	if json.Unmarshal(object, &texts) == nil {
		return texts
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(object, &values) != nil {
		return nil
	}
	texts = make(map[string]string, len(values))
	for name, value := range values {
		var words string
		if json.Unmarshal(value, &words) != nil {
			words = string(value)
		}
		texts[name] = words
	}
	return texts
}

// instant reads a time that another program may have set to infinity, which no time.Time is: -infinity and NULL are the zero time, and
// infinity is the last second that RFC 3339 can write.
type instant time.Time

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i = instant(v.Time)
	if v.InfinityModifier == pgtype.Infinity {
		*i = instant(time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC))
	}
	return nil
}

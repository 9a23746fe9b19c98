package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

const (
	findMessages = `SELECT m.seq, m.revision, m.state, m.destination, m.id, m.topic, m.key, m.type, m.sequence, m.attempts,
		m.created_at, m.due_at, m.holds, `
	wholeMessages = `m.headers, m.errors, m.body FROM txmsg_message m`
	bareMessages  = `NULL, NULL, NULL FROM txmsg_message m`

	findAudit = `SELECT a.entry, a.at, a.who, a.why, a.verb, a.seq, a.revision, a.state, a.attempts, a.destination,
		a.id, a.topic, a.key, a.type, a.sequence, a.created_at, a.headers, a.errors, a.body FROM txmsg_audit a`
)

// FindHeld implements [localtable.OperatorStore]. It does not wait for writers.
func (db *DB) FindHeld(ctx context.Context, f localtable.Filter, after int64, limit int, whole bool) ([]localtable.Held, error) {
	query := findMessages + bareMessages
	if whole {
		query = findMessages + wholeMessages
	}
	var c conditions
	c.add("m.seq > ?%d", after)
	c.texts = append(c.texts, statesSQL(f.States))
	c.addText("m.destination = ?%d", f.Destination)
	c.addText("m.topic = ?%d", f.Topic)
	c.addText("m.key = ?%d", f.Key)
	if len(f.IDs) > 0 {
		c.addList("m.id", f.IDs)
	}
	c.addText("m.errors ->> '$[#-1].class' = ?%d", string(f.Class))
	c.addTime("m.created_at >= ?%d", f.Since)
	c.addTime("m.created_at < ?%d", f.Until)
	found, err := collect(ctx, db, query+c.where()+fmt.Sprintf(" ORDER BY m.seq LIMIT %d", limit), c.args, scanHeld)
	if err != nil {
		return nil, fmt.Errorf("sqlite: find held messages: %w", err)
	}
	return found, nil
}

// statesSQL looks for rows of these states, or of all but ready, in the partial indexes, so that a backlog of ready rows is not
// gone through. ?1 is the seq that they come after.
func statesSQL(states []localtable.State) string {
	indexes := map[localtable.State]string{
		localtable.StateWaiting: `txmsg_message_due WHERE state IN ('waiting', 'retry') AND state = 'waiting'`,
		localtable.StateRetry:   `txmsg_message_due WHERE state IN ('waiting', 'retry') AND state = 'retry'`,
		localtable.StateParked:  `txmsg_message_parked WHERE state = 'parked'`,
		localtable.StateDead:    `txmsg_message_dead WHERE state = 'dead'`,
	}
	var places []string
	for state, index := range indexes {
		if len(states) == 0 || slices.Contains(states, state) {
			places = append(places, `SELECT seq FROM txmsg_message INDEXED BY `+index+` AND seq > ?1`)
		}
	}
	slices.Sort(places)
	return "m.seq IN (" + strings.Join(places, " UNION ALL ") + ")"
}

func scanHeld(found *sql.Rows) (localtable.Held, error) {
	var row localtable.Held
	var created int64
	var due sql.NullInt64
	var headers, failures sql.NullString
	m := &row.Message
	err := found.Scan(&row.Seq, &row.Revision, &row.State, &row.Destination, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence,
		&row.Attempts, &created, &due, &row.Holds, &headers, &failures, &m.Body)
	if err != nil {
		return row, err
	}
	row.Created = time.UnixMilli(created)
	if row.State == localtable.StateWaiting || row.State == localtable.StateRetry {
		row.Due = time.UnixMilli(due.Int64)
	}
	row.Errors = decodeFailures(failures.String)
	m.Headers, err = decodeHeaders(headers.String)
	return row, err
}

// Audit implements [localtable.OperatorStore]. It does not wait for writers.
func (db *DB) Audit(ctx context.Context, f localtable.AuditFilter, after int64, limit int) ([]localtable.AuditEntry, error) {
	var c conditions
	c.add("a.entry > ?%d", after)
	c.addText("a.who = ?%d", f.Who)
	c.addText("a.verb = ?%d", string(f.Verb))
	c.addText("a.id = ?%d", f.ID)
	c.addText("a.destination = ?%d", f.Destination)
	c.addText("a.topic = ?%d", f.Topic)
	c.addText("a.key = ?%d", f.Key)
	c.addTime("a.at >= ?%d", f.Since)
	c.addTime("a.at < ?%d", f.Until)
	entries, err := collect(ctx, db, findAudit+c.where()+fmt.Sprintf(" ORDER BY a.entry LIMIT %d", limit), c.args, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("sqlite: read audit: %w", err)
	}
	return entries, nil
}

func scanEntry(found *sql.Rows) (localtable.AuditEntry, error) {
	var e localtable.AuditEntry
	var at, created int64
	var headers, failures sql.NullString
	m := &e.Message
	err := found.Scan(&e.Entry, &at, &e.Who, &e.Why, &e.Verb, &e.Seq, &e.Revision, &e.State, &e.Attempts, &e.Destination,
		&m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence, &created, &headers, &failures, &m.Body)
	if err != nil {
		return e, err
	}
	e.At, e.Created, e.Errors = time.UnixMilli(at), time.UnixMilli(created), decodeFailures(failures.String)
	m.Headers, err = decodeHeaders(headers.String)
	return e, err
}

func collect[T any](ctx context.Context, db *DB, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	found, err := db.pool.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var list []T
	for found.Next() {
		one, err := scan(found)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, found.Err()
}

// decodeFailures reads a row's history. What another program may have put there instead is shown as it is.
func decodeFailures(history string) []localtable.Failure {
	if history == "" {
		return nil
	}
	var entries []struct {
		At           int64
		Class, Error string
	}
	if json.Unmarshal([]byte(history), &entries) != nil {
		return []localtable.Failure{{Error: history}}
	}
	var failures []localtable.Failure
	for _, entry := range entries {
		failures = append(failures, localtable.Failure{At: time.UnixMilli(entry.At), Class: localtable.Class(entry.Class), Error: entry.Error})
	}
	return failures
}

// conditions are those of a WHERE with their arguments, numbered as they come.
type conditions struct {
	texts []string
	args  []any
}

func (c *conditions) add(text string, arg any) {
	c.args = append(c.args, arg)
	c.texts = append(c.texts, fmt.Sprintf(text, len(c.args)))
}

// addList asks for one of values, at least one.
func (c *conditions) addList(column string, values []string) {
	places := make([]string, len(values))
	for i, value := range values {
		c.args = append(c.args, value)
		places[i] = fmt.Sprintf("?%d", len(c.args))
	}
	c.texts = append(c.texts, column+" IN ("+strings.Join(places, ", ")+")")
}

// addText adds nothing for an empty text.
func (c *conditions) addText(text, value string) {
	if value != "" {
		c.add(text, value)
	}
}

// addTime adds nothing for the zero time.
func (c *conditions) addTime(text string, value time.Time) {
	if !value.IsZero() {
		c.add(text, value.UnixMilli())
	}
}

func (c *conditions) where() string { return " WHERE " + strings.Join(c.texts, " AND ") }

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

// FindHeld implements [localtable.OperatorStore].
func (db *DB) FindHeld(ctx context.Context, f localtable.Filter, after int64, limit int, whole bool) (found []localtable.Held, err error) {
	columns := bareSQL
	if whole {
		columns = wholeSQL
	}
	var c conditions
	c.add("h.seq > $%d", after)
	if len(f.States) > 0 {
		c.add(statesSQL(f.States))
	}
	c.addText("h.destination = $%d", f.Destination)
	c.addText("h.topic = $%d", f.Topic)
	c.addText("h.key = $%d", f.Key)
	if len(f.IDs) > 0 {
		c.add("h.id = ANY ($%d::text[])", f.IDs)
	}
	c.addText("h.errors -> -1 ->> 'class' = $%d", string(f.Class))
	c.addTime("h.created_at >= $%d", f.Since)
	c.addTime("h.created_at < $%d", f.Until)
	query := db.sql(findHeldSQL + columns + c.where() + fmt.Sprintf(" ORDER BY h.seq LIMIT %d", limit))
	// A retry goes through many pages, so each must go straight to its first row.
	err = db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		batch.Queue(query, c.args...).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, scanHeld)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: find held messages: %w", err)
	}
	return found, nil
}

// statesSQL names the states in the statement's text, so that the planner sees which partial index will do.
func statesSQL(states []localtable.State) string {
	var names []string
	for _, state := range []localtable.State{localtable.StateWaiting, localtable.StateRetry, localtable.StateParked, localtable.StateDead} {
		if slices.Contains(states, state) {
			names = append(names, "'"+string(state)+"'")
		}
	}
	if len(names) == 0 {
		return "false"
	}
	return "h.state IN (" + strings.Join(names, ", ") + ")"
}

func scanHeld(found pgx.CollectableRow) (localtable.Held, error) {
	var row localtable.Held
	var due instant
	var headers, failures []byte
	m := &row.Message
	err := found.Scan(&row.Seq, &row.Revision, &row.State, &row.Destination, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence,
		&row.Attempts, (*instant)(&row.Created), &due, &row.Holds, &headers, &failures, &m.Body)
	if row.State == localtable.StateWaiting || row.State == localtable.StateRetry {
		row.Due = time.Time(due)
	}
	m.Headers, row.Errors = decodeHeaders(headers), decodeFailures(failures)
	return row, err
}

// Audit implements [localtable.OperatorStore].
func (db *DB) Audit(ctx context.Context, f localtable.AuditFilter, after int64, limit int) ([]localtable.AuditEntry, error) {
	var c conditions
	c.add("a.entry > $%d", after)
	c.addText("a.who = $%d", f.Who)
	c.addText("a.verb = $%d", string(f.Verb))
	c.addText("a.id = $%d", f.ID)
	c.addText("a.destination = $%d", f.Destination)
	c.addText("a.topic = $%d", f.Topic)
	c.addText("a.key = $%d", f.Key)
	c.addTime("a.at >= $%d", f.Since)
	c.addTime("a.at < $%d", f.Until)
	rows, err := db.pool.Query(ctx, db.sql(findAuditSQL+c.where()+fmt.Sprintf(" ORDER BY a.entry LIMIT %d", limit)), c.args...)
	if err != nil {
		return nil, fmt.Errorf("postgres: read audit: %w", err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("postgres: read audit: %w", err)
	}
	return entries, nil
}

func scanEntry(found pgx.CollectableRow) (localtable.AuditEntry, error) {
	var e localtable.AuditEntry
	var headers, failures []byte
	m := &e.Message
	err := found.Scan(&e.Entry, &e.At, &e.Who, &e.Why, &e.Verb, &e.Seq, &e.Revision, &e.State, &e.Attempts, &e.Destination,
		&m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence, (*instant)(&e.Created), &headers, &failures, &m.Body)
	m.Headers, e.Errors = decodeHeaders(headers), decodeFailures(failures)
	return e, err
}

// decodeFailures reads a row's history. What another program may have put there instead is shown as it is.
func decodeFailures(history []byte) []localtable.Failure {
	if history == nil {
		return nil
	}
	var entries []struct {
		At           time.Time
		Class, Error string
	}
	if json.Unmarshal(history, &entries) != nil {
		return []localtable.Failure{{Error: string(history)}}
	}
	failures := make([]localtable.Failure, len(entries))
	for i, entry := range entries {
		failures[i] = localtable.Failure{At: entry.At, Class: localtable.Class(entry.Class), Error: entry.Error}
	}
	return failures
}

// conditions are those of a WHERE with their arguments, numbered as they come.
type conditions struct {
	texts []string
	args  []any
}

func (c *conditions) add(text string, args ...any) {
	for _, arg := range args {
		c.args = append(c.args, arg)
		text = fmt.Sprintf(text, len(c.args))
	}
	c.texts = append(c.texts, text)
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
		c.add(text, value)
	}
}

func (c *conditions) where() string { return " WHERE " + strings.Join(c.texts, " AND ") }

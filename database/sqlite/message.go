package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// now is the database's clock in milliseconds. SQLite reads its clock once in a statement.
const now = `CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)`

const (
	insertMessage = `INSERT INTO txmsg_message (id, destination, topic, key, type, sequence, headers, body, state, delayed, due_at) VALUES `
	// The driver binds an empty body as NULL.
	messageValues = `(?, ?, ?, ?, ?, ?, ?, coalesce(?, x''), ?, ?, ` + now + ` + ?)`
	// insertRows is the most rows of one statement: above that, longer statements are no faster.
	insertRows = 100
)

// Insert implements [localtable.Store].
func (db *DB) Insert(entries []localtable.Entry) []txmsg.Statement {
	var stmts []txmsg.Statement
	for len(entries) > 0 {
		some := entries[:min(insertRows, len(entries))]
		entries = entries[len(some):]
		stmts = append(stmts, insert(some))
	}
	return stmts
}

func insert(entries []localtable.Entry) txmsg.Statement {
	args := make([]any, 0, 11*len(entries))
	for _, entry := range entries {
		m, state := entry.Message, "ready"
		var wait any // without a delay NULL, and so is due_at
		if m.Delay > 0 {
			state, wait = "waiting", milliseconds(m.Delay)
		}
		args = append(args, m.ID, entry.Destination, m.Topic, m.Key, m.Type, m.Sequence, encodeHeaders(m.Headers), m.Body,
			state, m.Delay > 0, wait)
	}
	return txmsg.Statement{SQL: insertMessage + messageValues + strings.Repeat(", "+messageValues, len(entries)-1), Args: args}
}

// encodeHeaders returns headers as a JSON object. A map of strings always has one.
func encodeHeaders(headers map[string]string) any {
	if len(headers) == 0 {
		return nil
	}
	text, _ := json.Marshal(headers)
	return string(text)
}

// decodeHeaders reads what another program may have written: a value that is no text is taken as its JSON, since an
// error would keep back every row that is read with this one.
func decodeHeaders(text string) (map[string]string, error) {
	var values map[string]json.RawMessage
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	headers := make(map[string]string, len(values))
	for name, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		headers[name] = text
	}
	return headers, nil
}

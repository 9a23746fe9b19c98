package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/txmsg/txmsg-go/localtable"
)

var _ localtable.OperatorStore = (*DB)(nil)

// The statements of a person's verbs. The audit is written first, from the rows as they were; what it then names is changed. The
// transaction has the write lock, so nobody else changes anything between the two.
const (
	auditMessages = `INSERT INTO txmsg_audit
		(seq, created_at, sequence, revision, attempts, state, destination, id, topic, key, type, who, why, verb, headers, errors, body)
		SELECT m.seq, m.created_at, m.sequence, m.revision, m.attempts, m.state, m.destination, m.id, m.topic, m.key, m.type, ?2, ?3, ?4,
			iif(?4 = 'skip', m.headers, NULL), iif(?4 = 'skip', m.errors, NULL), iif(?4 = 'skip', m.body, NULL)
		FROM json_each(?1) r CROSS JOIN txmsg_message m ON m.seq = r.value ->> 0 AND m.revision = r.value ->> 1
		WHERE (m.state = 'dead' AND (?4 <> 'release' OR m.holds)) OR (m.state = 'retry' AND ?4 = 'retry')
		GROUP BY m.seq ORDER BY m.seq
		RETURNING seq, revision, destination, key`

	retryMessages = `UPDATE txmsg_message SET state = 'retry', due_at = ` + now + `, attempts = 0, holds = key <> '' AND NOT delayed,
		revision = revision + 1 WHERE seq IN (SELECT value FROM json_each(?))`

	releaseMessages = `UPDATE txmsg_message SET holds = 0, revision = revision + 1 WHERE seq IN (SELECT value FROM json_each(?))`
)

// Decide implements [localtable.OperatorStore]. A power cut does not undo it.
func (db *DB) Decide(ctx context.Context, d localtable.Decision) ([]localtable.Ref, error) {
	statement, known := changeBy[d.Verb]
	if !known {
		return nil, fmt.Errorf("sqlite: Decision.Verb must be retry, skip or release, got %q", d.Verb)
	}
	var changed []localtable.Ref
	err := db.writeDurably(ctx, func(tx *sql.Tx) error {
		refs, keys, err := audit(ctx, tx, d)
		if err != nil || len(refs) == 0 {
			return err
		}
		changed = refs
		seqs := make([]int64, len(refs))
		for i, ref := range refs {
			seqs[i] = ref.Seq
		}
		list, _ := json.Marshal(seqs) // numbers have no error
		if _, err := tx.ExecContext(ctx, statement, string(list)); err != nil {
			return err
		}
		if d.Verb == localtable.VerbRetry {
			return nil
		}
		for of := range keys {
			if _, err := tx.ExecContext(ctx, unparkMessages, of.destination, of.key, localtable.UnparkShare(d.Unpark, len(keys))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s messages: %w", d.Verb, err)
	}
	return changed, nil
}

var changeBy = map[localtable.Verb]string{
	localtable.VerbRetry: retryMessages, localtable.VerbSkip: removeMessages, localtable.VerbRelease: releaseMessages,
}

// audit writes the entries, and returns the rows that they are about and the keys of those.
func audit(ctx context.Context, tx *sql.Tx, d localtable.Decision) (refs []localtable.Ref, keys map[group]bool, err error) {
	seen := make([][2]int64, len(d.Refs))
	for i, ref := range d.Refs {
		seen[i] = [2]int64{ref.Seq, ref.Revision}
	}
	rows, err := tx.QueryContext(ctx, auditMessages, array(seen), d.Reason.Who, d.Reason.Why, string(d.Verb))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	keys = map[group]bool{}
	for rows.Next() {
		var ref localtable.Ref
		var of group
		if err := rows.Scan(&ref.Seq, &ref.Revision, &of.destination, &of.key); err != nil {
			return nil, nil, err
		}
		refs = append(refs, ref)
		if of.key != "" {
			keys[of] = true
		}
	}
	return refs, keys, rows.Err()
}

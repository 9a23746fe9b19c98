package sqlite

// The statements of a settlement. Those with a list of rows take it as a JSON array: one statement for all of them.
const (
	// compareMessages finds, of [seq, revision] pairs, those that still stand.
	compareMessages = `SELECT r.key, m.destination, m.key, m.holds
		FROM json_each(?) r CROSS JOIN txmsg_message m ON m.seq = r.value ->> 0 AND m.revision = r.value ->> 1`

	archiveMessages = `INSERT INTO txmsg_delivered
		(seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body)
		SELECT seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body
		FROM txmsg_message WHERE seq IN (SELECT value FROM json_each(?))`

	removeMessages = `DELETE FROM txmsg_message WHERE seq IN (SELECT value FROM json_each(?))`

	// failMessage keeps the newest ?5 errors.
	failMessage = `UPDATE txmsg_message SET state = ?2, holds = ?3 AND key <> '' AND NOT delayed, due_at = ` + now + ` + ?4, attempts = attempts + ?8, revision = revision + 1,
		errors = CASE WHEN ?7 = '' THEN errors ELSE (SELECT json_group_array(json(value)) FROM (
			SELECT value FROM json_each(json_insert(errors, '$[#]', json_object('at', ` + now + `, 'class', ?6, 'error', ?7)))
			WHERE key > json_array_length(errors) - ?5 ORDER BY key)) END
		WHERE seq = ?1`

	// unparkMessages makes ready what waited only for the head that is gone.
	unparkMessages = `UPDATE txmsg_message SET state = 'ready', revision = revision + 1 WHERE seq IN (
		SELECT seq FROM txmsg_message WHERE state = 'parked' AND destination = ?1 AND key = ?2
		AND seq < coalesce((SELECT min(h.seq) FROM txmsg_message h WHERE h.holds AND h.destination = ?1 AND h.key = ?2),
			9223372036854775807)
		ORDER BY seq LIMIT ?3)`

	// parkMessages leaves a row as it is when nothing holds it back any more. One that failed itself, and now waits behind an
	// earlier one, holds nobody while it is parked: its followers wait behind it as they do behind any parked row.
	parkMessages = `UPDATE txmsg_message AS m SET state = 'parked', holds = 0, due_at = NULL, revision = revision + 1
		WHERE seq IN (SELECT value FROM json_each(?)) AND key <> '' AND NOT delayed AND (
			EXISTS (SELECT 1 FROM txmsg_message h
				WHERE h.holds AND h.destination = m.destination AND h.key = m.key AND h.seq < m.seq)
			OR EXISTS (SELECT 1 FROM txmsg_message p
				WHERE p.state = 'parked' AND p.destination = m.destination AND p.key = m.key AND p.seq < m.seq))`
)

package postgres

// The statements of a person's verbs. $1 and $2 are the rows' seqs and the revisions that were seen, $3 and $4 who and why.
const (
	// A row's lane and key never change, so they may be known before the lane is locked.
	heldKeysSQL = `SELECT DISTINCT lane, destination, key FROM txmsg_held WHERE seq = ANY ($1::bigint[])`

	// The lanes of any owner and of none: a settlement, a sweep and a takeover of them come before this or after it.
	lockAnyLanesSQL = `SELECT FROM txmsg_lane WHERE lane = ANY ($1::smallint[]) ORDER BY lane FOR NO KEY UPDATE`

	seenSQL = `unnest($1::bigint[], $2::bigint[]) AS r (seq, revision)`

	// o is m as it was: the lock keeps everybody else from both.
	retryHeldSQL = `WITH changed AS (
    UPDATE txmsg_held m SET state = 'retry', due_at = clock_timestamp(), attempts = 0, revision = m.revision + 1,
        holds = m.key <> '' AND NOT m.delayed
    FROM ` + seenSQL + ` JOIN txmsg_held o ON o.seq = ANY (ARRAY[r.seq])
    WHERE m.seq = ANY (ARRAY[r.seq]) AND m.revision = r.revision AND m.state IN ('retry', 'dead')
    RETURNING o.*)` + auditSQL + `'retry', NULL::jsonb, NULL::jsonb, NULL::bytea` + auditEnd

	skipHeldSQL = `WITH changed AS (
    DELETE FROM txmsg_held m USING ` + seenSQL + `
    WHERE m.seq = ANY (ARRAY[r.seq]) AND m.revision = r.revision AND m.state = 'dead'
    RETURNING m.*)` + auditSQL + `'skip', headers, errors, body` + auditEnd

	releaseHeldSQL = `WITH changed AS (
    UPDATE txmsg_held m SET holds = false, revision = m.revision + 1
    FROM ` + seenSQL + ` JOIN txmsg_held o ON o.seq = ANY (ARRAY[r.seq])
    WHERE m.seq = ANY (ARRAY[r.seq]) AND m.revision = r.revision AND m.state = 'dead' AND m.holds
    RETURNING o.*)` + auditSQL + `'release', NULL::jsonb, NULL::jsonb, NULL::bytea` + auditEnd

	auditSQL = `
INSERT INTO txmsg_audit (seq, created_at, sequence, revision, attempts, state, destination, id, topic, key, type, who, why,
    verb, headers, errors, body)
SELECT seq, created_at, sequence, revision, attempts, state, destination, id, topic, key, type, $3::text, $4::text, `
	auditEnd = ` FROM changed ORDER BY seq
RETURNING seq, revision`

	unparkKeysSQL = `WITH next AS MATERIALIZED (
    SELECT n.* FROM unnest($1::smallint[], $2::text[], $3::text[]) AS k (lane, destination, key)
        CROSS JOIN LATERAL (` + freeSQL + ` LIMIT $4) n
), ` + freeNextSQL

	findHeldSQL = `SELECT h.seq, h.revision, h.state, h.destination, h.id, h.topic, h.key, h.type, coalesce(h.sequence, 0),
    h.attempts, h.created_at, h.due_at, h.holds, `
	wholeSQL = `h.headers, h.errors, h.body FROM txmsg_held h`
	bareSQL  = `NULL::jsonb, NULL::jsonb, NULL::bytea FROM txmsg_held h`

	findAuditSQL = `SELECT a.entry, a.at, a.who, a.why, a.verb, a.seq, a.revision, a.state, a.attempts, a.destination,
    a.id, a.topic, a.key, a.type, coalesce(a.sequence, 0), a.created_at, a.headers, a.errors, a.body
FROM txmsg_audit a`
)

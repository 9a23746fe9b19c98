package postgres

// The statements of a settlement. $1 is the owner; $2 to $6 are, but of deleteReadySQL and unparkSQL, the columns of results: of those,
// only the rows of lanes that the owner holds in the epoch given, and with the revision that was read.
const (
	// settlePlanSQL also lets the settlement's commit return before it is on disk: it would wait for the disk together with the
	// commits that carry messages, and has nothing that they have. A crash of the server may forget the last settlements,
	// whole ones and the newest first, since the log is written in order; with one that is forgotten all that followed from it
	// is forgotten too. Their rows are then as they were before the messages were sent, and are sent again: copies, no loss.
	// Every other commit of the server takes the settlements before it to the disk.
	settlePlanSQL = planSQL + `, set_config('synchronous_commit', 'off', true)`

	// FOR NO KEY UPDATE: two settlements of a lane run one after the other.
	lockLanesSQL = `SELECT FROM txmsg_lane WHERE lane = ANY ($1::smallint[]) AND owner = $2 ORDER BY lane FOR NO KEY UPDATE`

	resultSQL = `unnest($2::smallint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
    AS r (lane, epoch, destination, seq, revision)`

	// IS TRUE keeps the planner from looking every row's lane up: the lanes are read once.
	ours = ` AND ((r.lane, r.epoch) IN (SELECT l.lane, l.epoch FROM txmsg_lane l WHERE l.owner = $1)) IS TRUE`

	// The lane is named although seq would do: the row of a lane that was lost is not to be found by a wrong one.
	//
	// One column is sought as the one of an array: that takes the same look, and cannot be merged. Where the planner has seen
	// a table with none but dead rows, it would else go through the whole index and compare each row with every result.
	isReady = ` WHERE m.destination = ANY (ARRAY[r.destination]) AND m.lane = r.lane AND m.seq = r.seq AND m.revision = r.revision` + ours
	isHeld  = ` WHERE m.lane = r.lane AND m.seq = ANY (ARRAY[r.seq]) AND m.revision = r.revision` + ours

	// Most rows are ready and delivered. They are looked at where they were read, $4, which costs half of finding them by
	// the index: a row that somebody has moved since is not found, and sent again. $2 and $3 are the lanes and their epochs, $5
	// and $6 the seqs and revisions.
	deleteReadySQL = `DELETE FROM txmsg_ready m WHERE m.ctid = ANY ($4::tid[])
    AND ((m.seq, m.revision) IN (SELECT r.seq, r.revision FROM unnest($5::bigint[], $6::bigint[]) AS r (seq, revision))) IS TRUE
    AND (m.lane IN (
        SELECT l.lane FROM unnest($2::smallint[], $3::bigint[]) AS r (lane, epoch), txmsg_lane l
        WHERE l.owner = $1 AND l.lane = r.lane AND l.epoch = r.epoch)) IS TRUE`
	deleteHeldSQL = `DELETE FROM txmsg_held m USING ` + resultSQL + isHeld

	archiveReadySQL = `WITH gone AS (` + deleteReadySQL + ` RETURNING m.*)` + archiveSQL
	archiveHeldSQL  = `WITH gone AS (` + deleteHeldSQL + ` RETURNING m.*)` + archiveSQL
	archiveSQL      = `
INSERT INTO txmsg_delivered (seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body)
SELECT seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body FROM gone`

	// failureSQL are results with more columns: $7 to $10; $11 is how many errors are kept, $12 whether the dead hold their key.
	failureSQL = `unnest($2::smallint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::integer[], $9::text[], $10::text[])
    AS r (lane, epoch, destination, seq, revision, after, spent, error, class)`

	failReadySQL = `WITH gone AS (DELETE FROM txmsg_ready m USING ` + failureSQL + isReady + `
    RETURNING m.*, r.after, r.spent, r.error, r.class)
INSERT INTO txmsg_held (state, due_at, attempts, revision, delayed, holds, errors,
    seq, created_at, sequence, destination, id, topic, key, type, headers, body)
SELECT CASE WHEN m.after IS NULL THEN 'dead' ELSE 'retry' END, clock_timestamp() + m.after * interval '1 microsecond',
    m.attempts + m.spent, m.revision + 1, false, m.key <> '' AND (m.after IS NOT NULL OR $12), ` + historySQL + `m.error, m.class` + historyEnd + `,
    m.seq, m.created_at, m.sequence, m.destination, m.id, m.topic, m.key, m.type, m.headers, m.body
FROM gone m`

	failHeldSQL = `UPDATE txmsg_held m SET
    state = CASE WHEN r.after IS NULL THEN 'dead' ELSE 'retry' END, due_at = clock_timestamp() + r.after * interval '1 microsecond',
    attempts = m.attempts + r.spent, revision = m.revision + 1,
    holds = m.key <> '' AND NOT m.delayed AND (r.after IS NOT NULL OR $12), errors = ` + historySQL + `r.error, r.class` + historyEnd + `
FROM ` + failureSQL + isHeld

	historySQL = `CASE WHEN $11 > 0 THEN jsonb_path_query_array(
        coalesce(m.errors, '[]') || (SELECT CASE WHEN e.error = '' THEN '[]'
            ELSE jsonb_build_object('at', clock_timestamp(), 'error', e.error, 'class', e.class) END FROM (SELECT `
	historyEnd = `) AS e (error, class)),
        '$[last - $n to last]', jsonb_build_object('n', $11 - 1)) END`

	isBehind = ` AND EXISTS (SELECT FROM txmsg_held f
        WHERE f.lane = m.lane AND f.destination = m.destination AND f.key = m.key AND ` + standsBefore + ` AND f.seq < m.seq)`

	parkReadySQL = `WITH gone AS (DELETE FROM txmsg_ready m USING ` + resultSQL + isReady + isBehind + ` RETURNING m.*)
INSERT INTO txmsg_held (state, delayed, revision, seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body)
SELECT 'parked', false, revision + 1, seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body FROM gone`

	parkHeldSQL = `UPDATE txmsg_held m SET state = 'parked', due_at = NULL, holds = false, revision = m.revision + 1
FROM ` + resultSQL + isHeld + ` AND NOT m.delayed` + isBehind

	unparkSQL = `WITH next AS MATERIALIZED (
    SELECT n.* FROM (SELECT DISTINCT lane, epoch, destination, key
            FROM unnest($2::smallint[], $3::bigint[], $4::text[], $5::text[]) AS k (lane, epoch, destination, key)) k
        JOIN txmsg_lane l ON l.lane = k.lane AND l.owner = $1 AND l.epoch = k.epoch
        CROSS JOIN LATERAL (` + freeSQL + ` LIMIT $6) n
), ` + freeNextSQL

	// freeSQL are the parked rows of key k that no head stands before, in order.
	freeSQL = `SELECT p.seq FROM txmsg_held p
        WHERE p.lane = k.lane AND p.destination = k.destination AND p.key = k.key AND p.state = 'parked'
            AND p.seq < coalesce((SELECT min(f.seq) FROM txmsg_held f
                WHERE f.destination = k.destination AND f.key = k.key AND f.holds), 9223372036854775807)
        ORDER BY p.seq`

	// freeNextSQL makes the rows of next ready, and says so to those who have read on, see horizon.
	freeNextSQL = `gone AS (DELETE FROM txmsg_held m USING next n WHERE m.seq = ANY (ARRAY[n.seq]) AND m.state = 'parked' RETURNING m.*
), opened AS (
    UPDATE txmsg_lane l SET reopened = l.reopened + 1 FROM (SELECT DISTINCT lane FROM gone) g WHERE l.lane = g.lane
)
INSERT INTO txmsg_ready (lane, revision, seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body)
OVERRIDING SYSTEM VALUE
SELECT lane, revision + 1, seq, created_at, sequence, attempts, destination, id, topic, key, type, headers, errors, body FROM gone`
)

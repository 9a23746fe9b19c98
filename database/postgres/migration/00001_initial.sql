-- +goose Up

-- To compare with a CHECK costs every INSERT as much as an index entry does, a domain nothing.
CREATE DOMAIN txmsg_lane_number AS smallint CHECK (VALUE BETWEEN 0 AND 63);

-- Messages that are ready to be sent. A row that is delivered, fails or has to wait leaves the table, so that nothing stands
-- between the ready rows of a lane, and a transaction that writes one pays for one index and no check.
CREATE TABLE txmsg_ready (
    seq         bigint       GENERATED ALWAYS AS IDENTITY, -- the order of writing
    created_at  timestamptz  NOT NULL DEFAULT clock_timestamp(),
    sequence    bigint,                                    -- the aggregate's own version
    revision    integer      NOT NULL DEFAULT 0,           -- grows with every change of the row
    attempts    integer      NOT NULL DEFAULT 0,
    -- A key has one lane, see txmsg_write. It is not a generated column: the server prepares its expression anew for every INSERT.
    lane        txmsg_lane_number NOT NULL,
    destination varchar(255) NOT NULL DEFAULT 'default',   -- who is to get it: a name in the relay's configuration
    id          varchar(128) NOT NULL DEFAULT gen_random_uuid()::text,
    topic       text         NOT NULL,
    key         varchar(255) NOT NULL DEFAULT '',
    type        text         NOT NULL DEFAULT '',
    headers     jsonb,                                     -- an object of texts
    errors      jsonb,                                     -- of earlier attempts, oldest first
    body        bytea        NOT NULL,
    PRIMARY KEY (destination, lane, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 1,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

-- Where other programs write messages. OFFSET keeps the view from being updatable: a key that changes would not change its lane.
CREATE VIEW txmsg_message AS SELECT destination, id, topic, key, type, sequence, headers, body FROM txmsg_ready OFFSET 0;

ALTER VIEW txmsg_message ALTER destination SET DEFAULT 'default', ALTER id SET DEFAULT gen_random_uuid()::text,
    ALTER key SET DEFAULT '', ALTER type SET DEFAULT '';

-- It runs as the owner. So it finds nothing by its name alone that somebody else may have made, and nobody may use it for a table
-- of his own.
-- +goose StatementBegin
DO $do$ BEGIN EXECUTE format($format$
CREATE FUNCTION txmsg_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO %I.txmsg_ready (lane, destination, id, topic, key, type, sequence, headers, body)
    VALUES (hashtext(coalesce(nullif(NEW.key, ''), NEW.id, '')) & 63, -- rows without a key are spread
        NEW.destination, NEW.id, NEW.topic, NEW.key, NEW.type, NEW.sequence, NEW.headers, NEW.body);
    RETURN NEW;
END
$$
$format$, current_schema()); END $do$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION txmsg_write() FROM PUBLIC;

CREATE TRIGGER txmsg_write INSTEAD OF INSERT ON txmsg_message FOR EACH ROW EXECUTE FUNCTION txmsg_write();

-- Messages that are not ready: they wait for their time (waiting, retry), for an earlier one of their key (parked) or for a
-- person (dead). A row keeps its seq when it comes and goes.
CREATE TABLE txmsg_held (
    seq         bigint       PRIMARY KEY DEFAULT nextval('txmsg_ready_seq_seq'),
    created_at  timestamptz  NOT NULL DEFAULT clock_timestamp(),
    due_at      timestamptz,                               -- of waiting and retry
    sequence    bigint,
    revision    integer      NOT NULL DEFAULT 0,
    attempts    integer      NOT NULL DEFAULT 0,
    lane        smallint     NOT NULL GENERATED ALWAYS AS (
        hashtext(CASE key WHEN '' THEN id ELSE key END) & 63
    ) STORED,
    delayed     boolean      NOT NULL DEFAULT true,        -- written with a delay: outside the order of its key
    holds       boolean      NOT NULL DEFAULT false,       -- it failed, and later rows of its key wait behind it
    state       text         NOT NULL DEFAULT 'waiting',
    destination varchar(255) NOT NULL DEFAULT 'default',
    id          varchar(128) NOT NULL DEFAULT gen_random_uuid()::text,
    topic       text         NOT NULL,
    key         varchar(255) NOT NULL DEFAULT '',
    type        text         NOT NULL DEFAULT '',
    headers     jsonb,
    errors      jsonb,
    body        bytea        NOT NULL,
    CHECK (state IN ('waiting', 'retry', 'parked', 'dead')),
    CHECK (state NOT IN ('waiting', 'retry') OR due_at IS NOT NULL),
    CHECK (NOT holds OR state IN ('retry', 'dead') AND key <> '' AND NOT delayed)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- All rows may be of one stuck key. The planner must not know, or it looks for that key's rows by seq, row by row.
ALTER TABLE txmsg_held ALTER key SET (n_distinct = -1);

CREATE INDEX txmsg_held_due ON txmsg_held (destination, lane, due_at) WHERE state IN ('waiting', 'retry');
CREATE INDEX txmsg_held_holds ON txmsg_held (destination, key, seq) WHERE holds;
CREATE INDEX txmsg_held_parked ON txmsg_held (lane, destination, key, seq) WHERE state = 'parked';
CREATE INDEX txmsg_held_dead ON txmsg_held (seq) WHERE state = 'dead';

-- What later rows of a key wait behind. IS TRUE keeps the planner from looking here for those alone that are parked.
CREATE INDEX txmsg_held_before ON txmsg_held (lane, destination, key, seq) WHERE (holds OR state = 'parked') IS TRUE;

-- What was delivered and is kept for a while, one partition a day. Relays make the partitions ahead of time; the default one is
-- the net for a day that none was made for.
CREATE TABLE txmsg_delivered (
    seq          bigint      NOT NULL,
    created_at   timestamptz NOT NULL,
    delivered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sequence     bigint,
    attempts     integer     NOT NULL,
    destination  text        NOT NULL,
    id           text        NOT NULL,
    topic        text        NOT NULL,
    key          text        NOT NULL,
    type         text        NOT NULL,
    headers      jsonb,
    errors       jsonb,
    body         bytea       NOT NULL
) PARTITION BY RANGE (delivered_at);

CREATE TABLE txmsg_delivered_default PARTITION OF txmsg_delivered DEFAULT
WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);

-- Nearly free to keep, and enough to find a message by an id that carries its time. Autovacuum takes in what is new: asked for by the
-- rows themselves, it would be asked more often than it remembers, and write each time into the server's log.
CREATE INDEX txmsg_delivered_id ON txmsg_delivered USING brin (id, delivered_at) WITH (pages_per_range = 16);

-- Relay instances. One is alive until expires_at, and so are its rights to lanes.
CREATE TABLE txmsg_instance (
    owner      text        PRIMARY KEY,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Who may settle the rows of a lane. The epoch grows whenever a lane is taken, reopened with every statement that makes rows
-- ready again under the seq that they had.
CREATE TABLE txmsg_lane (
    lane     smallint PRIMARY KEY CHECK (lane BETWEEN 0 AND 63),
    owner    text,
    epoch    bigint   NOT NULL DEFAULT 0,
    reopened bigint   NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

INSERT INTO txmsg_lane (lane) SELECT generate_series(0, 63);

-- One row while the server lives. A crash, and whatever else may take back what was committed, empties the table because it is
-- unlogged: that is what it is for.
CREATE UNLOGGED TABLE txmsg_incarnation (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    id        uuid    NOT NULL DEFAULT gen_random_uuid()
);

-- What a person decided about messages that were not delivered, written in the transaction of the change and kept without
-- end. Of a skipped message it is all that is left: only its entry has headers, errors and body.
CREATE TABLE txmsg_audit (
    entry       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    seq         bigint      NOT NULL,
    created_at  timestamptz NOT NULL,
    sequence    bigint,
    revision    integer     NOT NULL, -- of the row, before, as are state and attempts
    attempts    integer     NOT NULL,
    state       text        NOT NULL,
    verb        text        NOT NULL CHECK (verb IN ('retry', 'skip', 'release')),
    who         text        NOT NULL CHECK (who <> ''),
    why         text        NOT NULL CHECK (why <> ''),
    destination text        NOT NULL,
    id          text        NOT NULL,
    topic       text        NOT NULL,
    key         text        NOT NULL,
    type        text        NOT NULL,
    headers     jsonb,
    errors      jsonb,
    body        bytea,
    CHECK ((verb = 'skip') = (body IS NOT NULL))
);

-- Another program's ids may be longer than an entry of a sorted index.
CREATE INDEX txmsg_audit_id ON txmsg_audit USING hash (id);

-- Half messages: committed by the transaction that sent it, or fenced by a check with a rolled-back tombstone. Ids are
-- UUIDv7: old ones stand at the left of the primary key.
CREATE TABLE txmsg_half (
    id    uuid PRIMARY KEY,
    state text NOT NULL DEFAULT 'committed' CHECK (state IN ('committed', 'rolled_back'))
);

-- The owner that half messages of this database carry: one row.
CREATE TABLE txmsg_identity (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    id        text    NOT NULL DEFAULT gen_random_uuid()::text
);

INSERT INTO txmsg_identity DEFAULT VALUES;

CREATE TABLE txmsg_inbox (
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    consumer   text        NOT NULL,
    message_id text        NOT NULL,
    PRIMARY KEY (consumer, message_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX txmsg_inbox_seen_at ON txmsg_inbox (seen_at);

CREATE TABLE txmsg_dead_letter (
    seq          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer     text        NOT NULL,
    message_id   text        NOT NULL,
    buried_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    topic        text        NOT NULL,
    key          text        NOT NULL,
    type         text        NOT NULL,
    sequence     bigint      NOT NULL,
    headers      jsonb,
    body         bytea       NOT NULL,
    broker       text        NOT NULL, -- where it stands in its broker
    source_topic text        NOT NULL,
    partition    text        NOT NULL,
    "offset"     bigint      NOT NULL,
    attempts     integer     NOT NULL,
    errors       text[]      NOT NULL  -- of the last attempts, oldest first
);

-- Another producer's ids may be longer than an index entry.
CREATE UNIQUE INDEX txmsg_dead_letter_message ON txmsg_dead_letter (md5(consumer), md5(message_id));

-- +goose Down
DROP TABLE txmsg_dead_letter, txmsg_inbox, txmsg_identity, txmsg_half, txmsg_incarnation, txmsg_audit, txmsg_lane, txmsg_instance, txmsg_delivered, txmsg_held;
DROP VIEW txmsg_message;
DROP FUNCTION txmsg_write();
DROP TABLE txmsg_ready;
DROP DOMAIN txmsg_lane_number;

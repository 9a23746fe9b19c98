-- +goose Up

-- The messages that the brokers do not have yet. Any program that writes the file may insert here, in the transaction of
-- its own changes: topic, body and what the message has of the other columns; with a delay also state 'waiting', delayed = 1
-- and due_at. Everything else has its default.
--
-- All times are whole milliseconds since 1970.
CREATE TABLE txmsg_message (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,   -- the order of writing; never used twice
    created_at  INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    due_at      INTEGER,                             -- of waiting and retry
    sequence    INTEGER NOT NULL DEFAULT 0,          -- the aggregate's own version
    revision    INTEGER NOT NULL DEFAULT 0,          -- grows with every change of the row
    attempts    INTEGER NOT NULL DEFAULT 0,
    delayed     INTEGER NOT NULL DEFAULT 0,          -- written with a delay: outside the order of its key
    holds       INTEGER NOT NULL DEFAULT 0,          -- failed, and later rows of its key wait behind it
    state       TEXT    NOT NULL DEFAULT 'ready',
    destination TEXT    NOT NULL DEFAULT 'default',  -- who is to get it: the name of a broker in the relay's configuration
    id          TEXT    NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%x%03x-%012x',
                    CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) >> 16,
                    CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) & 0xffff,
                    random() & 0xfff, 8 + (random() & 3), random() & 0xfff, random() & 0xffffffffffff)), -- a UUIDv7
    topic       TEXT    NOT NULL,
    key         TEXT    NOT NULL DEFAULT '',
    type        TEXT    NOT NULL DEFAULT '',
    headers     TEXT,                                -- an object of texts
    errors      TEXT    NOT NULL DEFAULT '[]',       -- of the last attempts, oldest first: {"at", "class", "error"}
    body        BLOB    NOT NULL,
    CONSTRAINT txmsg_message_state CHECK (state IN ('ready', 'waiting', 'retry', 'parked', 'dead')),
    CONSTRAINT txmsg_message_due CHECK (state NOT IN ('waiting', 'retry') OR due_at IS NOT NULL),
    CONSTRAINT txmsg_message_delayed CHECK (delayed IN (0, 1) AND (state <> 'waiting' OR delayed)),
    CONSTRAINT txmsg_message_holds CHECK (holds IN (0, 1) AND (NOT holds OR state IN ('retry', 'dead'))),
    CONSTRAINT txmsg_message_headers CHECK (headers IS NULL OR json_valid(headers) AND json_type(headers) = 'object'),
    CONSTRAINT txmsg_message_errors CHECK (json_valid(errors) AND json_type(errors) = 'array')
) STRICT;

-- The last columns of the first two are for counting and for the age of the oldest row.
CREATE INDEX txmsg_message_ready ON txmsg_message (destination, seq, created_at) WHERE state = 'ready';
CREATE INDEX txmsg_message_due ON txmsg_message (destination, due_at, state, created_at) WHERE state IN ('waiting', 'retry');
CREATE INDEX txmsg_message_holds ON txmsg_message (destination, key, seq) WHERE holds;
CREATE INDEX txmsg_message_parked ON txmsg_message (destination, key, seq) WHERE state = 'parked';
CREATE INDEX txmsg_message_dead ON txmsg_message (seq) WHERE state = 'dead';

-- What was delivered and is kept for a while, so that a message's life can be looked up.
CREATE TABLE txmsg_delivered (
    seq          INTEGER PRIMARY KEY,
    created_at   INTEGER NOT NULL,
    delivered_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    sequence     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    destination  TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    topic        TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    headers      TEXT,
    errors       TEXT    NOT NULL,
    body         BLOB    NOT NULL
) STRICT;

CREATE INDEX txmsg_delivered_delivered_at ON txmsg_delivered (delivered_at);
CREATE INDEX txmsg_delivered_id ON txmsg_delivered (id);

-- Relay instances. One is alive until expires_at, and so is its right to the lane.
CREATE TABLE txmsg_instance (
    owner      TEXT    PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who may settle the rows of a lane; there is one. The epoch grows whenever it is taken.
CREATE TABLE txmsg_lane (
    lane  INTEGER PRIMARY KEY CHECK (lane = 0),
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO txmsg_lane (lane) VALUES (0);

-- What a person decided about messages that were not delivered, written in the transaction of the change and kept without
-- end. Of a skipped message it is all that is left: only its entry has headers, errors and body.
CREATE TABLE txmsg_audit (
    entry       INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    seq         INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    revision    INTEGER NOT NULL,                    -- of the row, before, as are state and attempts
    attempts    INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    verb        TEXT    NOT NULL,
    who         TEXT    NOT NULL CHECK (who <> ''),
    why         TEXT    NOT NULL CHECK (why <> ''),
    destination TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    headers     TEXT,
    errors      TEXT,
    body        BLOB,
    CONSTRAINT txmsg_audit_verb CHECK (verb IN ('retry', 'skip', 'release') AND (verb = 'skip') = (body IS NOT NULL))
) STRICT;

CREATE INDEX txmsg_audit_id ON txmsg_audit (id);

-- +goose Down
DROP TABLE txmsg_audit;
DROP TABLE txmsg_lane;
DROP TABLE txmsg_instance;
DROP TABLE txmsg_delivered;
DROP TABLE txmsg_message;

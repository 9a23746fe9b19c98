-- +goose Up

-- The messages that are not delivered yet. Any program that writes the file may insert here, in the transaction of its own
-- changes: destination, topic and what the message has of the other columns down to body; with a delay also state
-- 'waiting', delayed = 1 and due_at. Everything else has its default.
--
-- All times are whole milliseconds since 1970.
CREATE TABLE txmsg_message (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of writing; never used twice
    id          TEXT    NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%x%03x-%012x',
                    CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) >> 16,
                    CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) & 0xffff,
                    random() & 0xfff, 8 + (random() & 3), random() & 0xfff, random() & 0xffffffffffff)), -- a UUIDv7
    destination TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    key         TEXT    NOT NULL DEFAULT '', -- '' asks for no order
    type        TEXT    NOT NULL DEFAULT '',
    sequence    INTEGER NOT NULL DEFAULT 0,
    headers     TEXT    NOT NULL DEFAULT '{}' CHECK (json_type(headers) = 'object'),
    body        BLOB    NOT NULL DEFAULT x'',
    state       TEXT    NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'waiting', 'retry', 'parked', 'dead')),
    delayed     INTEGER NOT NULL DEFAULT 0 CHECK (delayed IN (0, 1)), -- outside the order of its key
    holds       INTEGER NOT NULL DEFAULT 0 CHECK (holds IN (0, 1)),   -- a dead row that holds its key back
    revision    INTEGER NOT NULL DEFAULT 0,                           -- grows with every change
    attempts    INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)), -- of waiting and retry
    created_at  INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    errors      TEXT    NOT NULL DEFAULT '[]' CHECK (json_type(errors) = 'array'), -- {"time", "class", "error"}, newest last
    heads       INTEGER NOT NULL AS (key <> '' AND NOT delayed AND (state = 'retry' OR (state = 'dead' AND holds))) VIRTUAL
) STRICT;

-- The last columns of these two are for counting and for the age of the oldest row.
CREATE INDEX txmsg_message_ready ON txmsg_message (destination, seq, created_at) WHERE state = 'ready';
CREATE INDEX txmsg_message_due ON txmsg_message (destination, due_at, state, created_at) WHERE state IN ('retry', 'waiting');
-- The rows that hold back the later ones of their key, and those that are held back.
CREATE INDEX txmsg_message_head ON txmsg_message (destination, key, seq) WHERE heads;
CREATE INDEX txmsg_message_parked ON txmsg_message (destination, key, seq) WHERE state = 'parked';
CREATE INDEX txmsg_message_dead ON txmsg_message (seq) WHERE state = 'dead';

-- Delivered messages that are kept for a while, so that a message's life can be looked up.
CREATE TABLE txmsg_delivered (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    destination TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    sequence    INTEGER NOT NULL,
    headers     TEXT    NOT NULL,
    body        BLOB    NOT NULL,
    delayed     INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    delivered_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    errors      TEXT    NOT NULL
) STRICT;

CREATE INDEX txmsg_delivered_delivered ON txmsg_delivered (delivered_at);
CREATE INDEX txmsg_delivered_id ON txmsg_delivered (id);

-- The relays that are alive, and which of them may settle.
CREATE TABLE txmsg_instance (
    owner      TEXT    PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE txmsg_lane (
    number     INTEGER PRIMARY KEY,
    owner      TEXT,
    epoch      INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO txmsg_lane (number) VALUES (0);

-- +goose Down
DROP TABLE txmsg_lane;
DROP TABLE txmsg_instance;
DROP TABLE txmsg_delivered;
DROP TABLE txmsg_message;

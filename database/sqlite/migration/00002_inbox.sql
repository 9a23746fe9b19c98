-- +goose Up

-- The messages that a consumer has applied: written in the transaction of their effect.
CREATE TABLE txmsg_inbox (
    consumer   TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    created_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    PRIMARY KEY (consumer, message_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX txmsg_inbox_created ON txmsg_inbox (created_at);

-- The messages that a consumer's handler did not accept in its attempts.
CREATE TABLE txmsg_dead_letter (
    consumer         TEXT    NOT NULL,
    message_id       TEXT    NOT NULL,
    topic            TEXT    NOT NULL,
    key              TEXT    NOT NULL,
    type             TEXT    NOT NULL,
    sequence         INTEGER NOT NULL,
    headers          TEXT    NOT NULL,
    body             BLOB    NOT NULL,
    source_broker    TEXT    NOT NULL,
    source_topic     TEXT    NOT NULL,
    source_partition TEXT    NOT NULL,
    source_offset    INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    errors           TEXT    NOT NULL,
    created_at       INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    PRIMARY KEY (consumer, message_id)
) STRICT;

-- +goose Down
DROP TABLE txmsg_dead_letter;
DROP TABLE txmsg_inbox;

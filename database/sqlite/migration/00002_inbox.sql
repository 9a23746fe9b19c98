-- +goose Up

-- The messages that a consumer has applied: written in the transaction of their effect.
CREATE TABLE txmsg_inbox (
    seen_at    INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    consumer   TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    PRIMARY KEY (consumer, message_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX txmsg_inbox_seen_at ON txmsg_inbox (seen_at);

-- The messages that a consumer's handler did not accept in its attempts.
CREATE TABLE txmsg_dead_letter (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer     TEXT    NOT NULL,
    message_id   TEXT    NOT NULL,
    buried_at    INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER)),
    topic        TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    sequence     INTEGER NOT NULL,
    headers      TEXT,
    body         BLOB    NOT NULL,
    broker       TEXT    NOT NULL, -- where it stands in its broker
    source_topic TEXT    NOT NULL,
    partition    TEXT    NOT NULL,
    "offset"     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    errors       TEXT    NOT NULL, -- of the last attempts, oldest first: an array of texts
    UNIQUE (consumer, message_id)
) STRICT;

-- +goose Down
DROP TABLE txmsg_dead_letter;
DROP TABLE txmsg_inbox;

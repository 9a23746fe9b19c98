// Package postgres keeps transactions and the tables of the library in PostgreSQL 13 or later, through pgx. One [DB]
// serves the local table, the half-message checker and the consumer's inbox.
//
//	pool, err := pgxpool.New(ctx, dsn)
//	db, err := postgres.New(pool, postgres.Config{})
//	err = db.Migrate(ctx) // at every start, by every instance
//	backends := txmsg.Backends[pgx.Tx]{
//		"localtable/kafka": localtable.On(db, kafka.Open),
//		"rocketmq":         rocketmq.On(db),
//	}
//
// # What it guarantees
//
// The transaction that a callback gets can be committed by nobody but the messenger: SQL that begins, commits, rolls back
// or marks a savepoint is refused, and nested transactions go through tx.Begin, which also forgets what was published in
// one that is rolled back. What is written along with COMMIT travels in the same round trip, and an INSERT that fails
// stops the COMMIT. A commit whose reply was lost is settled by the transaction's id over a fresh connection, on the same
// server and timeline or not at all.
//
// BEGIN is sent with the callback's first statement, in one round trip. Because the transaction's id is asked for in
// between, SET TRANSACTION comes too late in a callback: choose the isolation level in [Config].
//
// tx.Conn returns the bare connection: statements run on it are neither checked nor followed, so it is for what cannot
// harm the transaction, such as its type map.
//
// # Connections
//
// A transaction uses one connection from BEGIN to COMMIT and never asks for a second. Everything else (relay, checks,
// clean-up) takes a connection of the pool for one round trip at a time. Four calls have one of their own: Migrate, the
// verdict after an unclear commit, which must not wait for a full pool, and Notify and Listen, so that a pool of one is
// enough. That of Notify is opened when another process may have to be told of a commit, and closed after five seconds
// without; that of Listen stays open while the relay runs.
//
// A pooler in transaction mode must not be given named statements, a search_path in the DSN, nor a listener:
//
//	pool, err := pgxpool.New(ctx, "postgres://pooler/shop?default_query_exec_mode=exec") // or cache_describe
//	db, err := postgres.New(pool, postgres.Config{Schema: "messages", ListenURL: "postgres://server/shop"})
//
// Migrate needs a DB whose pool leads to the server itself. Without ListenURL the relay finds commits of other processes by
// polling, and warns once.
//
// A machine that loses power does not say goodbye to the server: its open transactions keep their locks until the server
// notices. [Config.IdleTimeout] bounds that for a session that waits for the next statement; for one that was cut off in
// the middle of a statement set tcp_keepalives_idle, tcp_keepalives_interval and tcp_keepalives_count in the DSN.
//
// # Tables
//
// The tables stand in the folder migration. Ready messages stand in txmsg_ready, those that wait, failed or are dead in
// txmsg_held, delivered ones that are kept in txmsg_delivered, and what a person decided in txmsg_audit, which nothing
// shortens. Programs in other languages may write messages themselves, to the view txmsg_message: every column of it but topic
// and body has a default. A delayed one is written to txmsg_held, with due_at. A schema with these tables cannot be renamed.
//
//	INSERT INTO txmsg_message (topic, key, body) VALUES ('orders', 'order-7', '{"id":7}');
//	INSERT INTO txmsg_held (topic, body, due_at) VALUES ('orders', '{"id":7}', clock_timestamp() + interval '1 hour');
//
// They can wake the relays after the commit, in a transaction of its own:
//
//	SELECT pg_notify('txmsg/' || 'txmsg_message'::regclass::oid, '');
//
// Headers are a JSON object of texts. Times are of the database's clock.
//
// # Privileges
//
// Whoever runs Migrate owns the tables. [DB.Grant] lets another role do one [Duty] and nothing else: a service that only
// writes can neither read nor change a message, and a program in another language needs no more than
//
//	GRANT USAGE ON SCHEMA ...; GRANT INSERT ON txmsg_message ...;
//
// which is not enough for RETURNING: it makes an id itself if it needs one. For delayed messages:
//
//	GRANT USAGE ON SEQUENCE txmsg_ready_seq_seq ...;
//	GRANT INSERT (destination, id, topic, key, type, sequence, headers, body, due_at) ON txmsg_held ...;
//
// Nobody else writes to txmsg_ready: a row whose lane, place or times a program has made up may lose its order; one with a seq
// of its own, or after the sequence was set back, is found within half a minute and has no place in the order until then.
package postgres

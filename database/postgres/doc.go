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
// clean-up) takes a connection of the pool for one round trip at a time. Two calls open one of their own: Migrate, and the
// verdict after an unclear commit, which must not wait for a full pool.
//
// A machine that loses power does not say goodbye to the server: its open transactions keep their locks until the server
// notices. [Config.IdleTimeout] bounds that for a session that waits for the next statement; for one that was cut off in
// the middle of a statement set tcp_keepalives_idle, tcp_keepalives_interval and tcp_keepalives_count in the DSN.
//
// # Tables
//
// The tables stand in the folder migration. Ready messages stand in txmsg_message, those that wait, failed or are dead in
// txmsg_held, delivered ones that are kept in txmsg_delivered, and what a person decided in txmsg_audit, which nothing
// shortens. Programs in other languages may write messages themselves: every column of txmsg_message but topic and body
// has a default. A delayed one is written to txmsg_held, with due_at.
//
//	INSERT INTO txmsg_message (topic, key, body) VALUES ('orders', 'order-7', '{"id":7}');
//	INSERT INTO txmsg_held (topic, body, due_at) VALUES ('orders', '{"id":7}', clock_timestamp() + interval '1 hour');
//
// Headers are a JSON object of texts. Times are of the database's clock.
//
// # Privileges
//
// Whoever runs Migrate owns the tables. [DB.Grant] lets another role do one [Duty] and nothing else: a service that only
// writes can neither read nor change a message, and a program in another language needs no more than
//
//	GRANT USAGE ON SCHEMA ...; GRANT INSERT ON txmsg_message, txmsg_held; GRANT USAGE ON SEQUENCE txmsg_message_seq_seq
package postgres

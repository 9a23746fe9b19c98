// Package sqlite keeps messages, inbox and dead letters in a SQLite file, beside the service's own tables. One [*DB]
// is the database of a backend ([txmsg.Database]), the table of package localtable and the inbox of package consumer.
//
//	db, err := sqlite.Open(ctx, "orders.db", sqlite.Config{})
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	if err := db.Migrate(ctx); err != nil {
//		return err
//	}
//	backends := txmsg.Backends[*sql.Tx]{"localtable/nats": localtable.On(db, nats.Open)}
//
// # Writers
//
// SQLite has one writer. Transactions begin with BEGIN IMMEDIATE, so that none of them fails in its middle for want
// of the lock; within a process they queue in the order in which they came, between processes on one file the busy
// timeout decides. Readers wait for nobody and hold nobody up. A callback that writes through [DB.Pool] or another
// connection waits for the lock that its own transaction holds until the busy timeout ends: it must use its tx.
// A callback that hangs keeps every other writer waiting. The file has one lane (number 0): one relay at a time sends,
// the others stand by. A reader that stays open for long keeps SQLite from using its log again, and the log grows.
//
// The writers' connections belong to this package, with their commit hooks, rollback hooks and authorizers.
//
// # What a commit is worth
//
// Connections are opened with journal_mode = WAL and synchronous = FULL, and it is an error if the file does not
// take them: what was committed survives a power cut as far as the disk keeps what it has flushed. The service's
// tables must be in the same file: a commit over attached files is not atomic in WAL mode.
//
// What the relay records of its work (leases, settlements, clean-up) does not wait for the disk: a power cut may undo the
// last of it, though no end of a process, and then some messages are sent once more. Dead letters and what a person decides
// do wait.
//
// A transaction that SQLite has rolled back by itself (disk full, an interrupted statement, ON CONFLICT ROLLBACK)
// cannot commit in part: statements after it fail, and so do COMMIT and a commit that the callback asks for.
//
// An error of the disk during COMMIT leaves the outcome open: the transaction's pages may be complete in the log, and
// are then found by the next recovery. It is [txmsg.ErrOutcomeUnknown]; SQLite has no transaction id to ask for, so
// [txmsg.Transaction.Outcome] is always unknown. Nothing can interrupt the flush of a disk: COMMIT itself is not
// bounded by its context.
//
// # Clock
//
// Times are whole milliseconds since 1970 and are taken by SQLite in the statement that writes them: the clock of the
// machine that holds the file.
package sqlite

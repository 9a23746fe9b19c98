package txmsg

import "context"

// Database is what a backend needs of a database to run a local transaction: begin, commit with something written
// along, roll back, and a verdict after an unclear commit. Package database/postgres and its siblings implement it.
type Database[Tx any] interface {
	// Begin starts a transaction on a connection of its own. savepoint is called whenever a nested transaction begins
	// inside it, and the function it returned if that nested transaction is rolled back, so that what was published in
	// it is forgotten.
	Begin(ctx context.Context, savepoint func() (rollback func())) (Transaction[Tx], error)

	// Exec runs stmts in order inside tx and stops at the first error. It takes no connection of its own.
	Exec(ctx context.Context, tx Tx, stmts ...Statement) error

	// Conflict reports whether err says that the transaction lost a race with another one and a new run may win:
	// serialization failure, deadlock.
	Conflict(err error) bool
}

// Transaction is one local transaction. One goroutine uses it; it ends with the first of Commit and Rollback.
type Transaction[Tx any] interface {
	// Tx is the handle that the callback gets.
	Tx() Tx

	// Commit runs the statements of along and commits, in one round trip where the database can. Nil: it is
	// committed. An error that wraps [ErrOutcomeUnknown]: COMMIT was sent and its reply did not prove a rollback.
	// Any other error: it is rolled back, or can no longer commit. A transaction that an earlier error has
	// aborted, or that the callback has ended itself, is an [ErrRolledBack], and along is not written.
	Commit(ctx context.Context, along ...Statement) error

	// Rollback ends the transaction without effect and frees its connection. After a Commit it does nothing.
	Rollback(ctx context.Context) error

	// Outcome asks over a fresh connection, after an unclear Commit, what became of the transaction, until ctx ends.
	// [Unknown] with a nil error when the database has no means to tell. It never concludes from the absence of a row.
	Outcome(ctx context.Context) (Outcome, error)
}

// Statement is one SQL statement in its database's dialect, made by a store of that database.
type Statement struct {
	SQL  string
	Args []any
}

// Outcome is what became of a transaction. The zero value is Unknown: nothing is concluded from a missing answer.
type Outcome int

// The outcomes of a transaction. Committed and RolledBack are final.
const (
	Unknown Outcome = iota
	Committed
	RolledBack
)

func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case RolledBack:
		return "rolled back"
	default:
		return "unknown"
	}
}

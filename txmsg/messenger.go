package txmsg

import "context"

// Messenger publishes messages that share the fate of a local transaction. Tx is the database driver's own
// transaction type: pgx.Tx, *sql.Tx. Its methods may be called by many goroutines.
type Messenger[Tx any] interface {
	// Transact runs fn in a local transaction and commits it. The messages that fn gave to out are delivered at least
	// once if the transaction committed, and never if it did not.
	//
	// Nil means that the commit is known to have happened. [ErrOutcomeUnknown] means that nobody could say in time.
	// Any other error means that the transaction was rolled back; an error of fn is returned wrapped or as it is.
	//
	// fn may run more than once (serialization failure, deadlock, a lost race with a check): each run starts with no
	// messages, and the IDs that the library gives are the same in each run. fn neither commits nor rolls back tx,
	// and does not call Transact. A panic in fn rolls back and goes on up.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out Publisher) error) error

	// Run does the background work (relay, checks, clean-up) until ctx ends, then shuts down in bounded time and
	// returns nil. A broker or a database that does not answer is waited for. An error means that it cannot go on,
	// such as a missing topic. It is called at most once.
	Run(ctx context.Context) error

	// Abilities tells what this backend can do beyond the promise above.
	Abilities() Abilities
}

// Publisher takes the messages of one run of a transaction's callback.
type Publisher interface {
	// Publish adds msgs to the transaction. It keeps no reference to their memory. An error leaves the transaction
	// as the database left it and takes none of msgs: [*InvalidMessageError], [*UnsupportedError],
	// [ErrPublisherClosed], or what the backend met. It may use the transaction's connection, so rows that the
	// callback is still reading must be closed first, and no other goroutine may be using the transaction. The callback's
	// goroutines may call it side by side; what they publish after the callback has returned is refused.
	Publish(ctx context.Context, msgs ...Message) error
}

// Abilities are what backends differ in. Asking for what is not there is an [*UnsupportedError] from Publish.
type Abilities struct {
	Order bool // messages of one key reach the broker in the order in which they were written
	Delay bool // Message.Delay is honoured
}

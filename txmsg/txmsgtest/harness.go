package txmsgtest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Harness is what a backend gives the suite.
type Harness[Tx any] struct {
	// Open makes the world of one subtest: a database (or schema) and topics of its own, which t.Cleanup removes.
	// It is called once for every subtest, by subtests that run in parallel, and once more at the start, to see which
	// hooks there are.
	Open func(t *testing.T) Bundle[Tx]

	// Abilities are those that the backend declares. Without Order, Bundle.Quiesce is required and
	// Bundle.Topic makes topics of one queue.
	Abilities txmsg.Abilities

	// SingleWriter: a second transaction waits until the first has ended, as in SQLite.
	SingleWriter bool

	// Wait is the longest that the suite waits for a message, a row or the end of Run: a bound for failure, not a pace.
	// Defaults to 30 s.
	Wait time.Duration

	// Scale of the concurrent case. Defaults to 16 workers of 200 transactions.
	Scale Scale

	// Leaks are the goroutines that may stay after Run has returned and the bundle has been cleaned up; each with its
	// reason beside it. Defaults to none. The check sees the whole process: Run must not be called from a parallel test.
	Leaks []goleak.Option
}

// Scale is how much the concurrent case does.
type Scale struct {
	Workers int // Defaults to 16
	Rounds  int // transactions of each worker. Defaults to 200
}

// Bundle is the world of one subtest: one database and one broker. The functions may be called by several goroutines. The first
// group is required; a hook that is nil declares that the backend cannot do it, and its cases are left out.
type Bundle[Tx any] struct {
	// Messenger opens one more messenger on the bundle's database and broker, as another process would. The suite calls its Run,
	// or does not; t.Cleanup frees what Run does not.
	Messenger func(t *testing.T) txmsg.Messenger[Tx]

	// Write inserts a business row inside tx. A second row with the same id is an error of the database.
	Write func(ctx context.Context, tx Tx, id string) error

	// Rows returns the ids of the committed business rows, over a connection that is not the transaction's.
	Rows func(ctx context.Context) ([]string, error)

	// Nested runs fn in a nested transaction in the form that users of this database write, and rolls it back if
	// fn returns an error, which it returns.
	Nested func(ctx context.Context, tx Tx, out txmsg.Publisher, fn func(ctx context.Context, tx Tx) error) error

	// Topic makes a topic that is empty and ready to use, and returns its name.
	Topic func(t *testing.T) string

	// Receive reads a topic from its beginning until ctx ends, with a plain client of the broker and txmsg.FromWire,
	// and not through the messenger. It keeps the broker's order within each partition or queue. It closes the channel.
	Receive func(ctx context.Context, t *testing.T, topic string) <-chan txmsg.Delivery

	// Quiesce returns when whatever the broker and the database held, when it was called, of transactions that have
	// ended is decided for good: a ghost that could still come has come. The suite then commits a sentinel behind
	// it. Nil where the order of a key suffices: whatever was written before the sentinel arrives before it.
	Quiesce func(ctx context.Context) error

	Hooks[Tx]
}

// Hooks are what only some databases and brokers can do.
type Hooks[Tx any] struct {
	// Conflict is an error of the database that says: run the transaction again.
	Conflict error

	// Contend reads a row that all transactions share, calls meet and changes the row, so that of two transactions that do it at
	// once one is refused as a conflict.
	Contend func(ctx context.Context, tx Tx, meet func()) error

	// FailStatement runs a statement that the database refuses, and returns its error.
	FailStatement func(ctx context.Context, tx Tx) error

	// FailCommit makes the coming COMMIT of tx fail, as a deferred constraint does.
	FailCommit func(ctx context.Context, tx Tx) error

	// UnclearCommits are the ways in which the answer to a COMMIT can be lost.
	UnclearCommits []Fault[Tx]

	// Redeliver makes the messages that are committed from now on be received at least twice.
	Redeliver func(t *testing.T)

	// Pooled is Messenger with so many database connections for its transactions and no more.
	Pooled func(t *testing.T, connections int) txmsg.Messenger[Tx]
}

// Fault is one way in which a COMMIT goes wrong on its way to the database and back.
type Fault[Tx any] struct {
	Name string
	// Committed tells whether the COMMIT takes effect.
	Committed bool
	// Start begins the fault on the connection of tx; stop ends it. The suite calls Start as the last act of a callback, so that
	// COMMIT is what comes next on that connection, and stop when Transact has returned, both from the test's goroutine.
	// hit must be called when the COMMIT has met the fault: it shows that the case is not empty, and ends a context
	// during COMMIT. It comes when the COMMIT has taken effect, or never will, and before Transact can know.
	Start func(t *testing.T, tx Tx, hit func()) (stop func())
}

func (h *Harness[Tx]) setDefaults() {
	if h.Wait == 0 {
		h.Wait = 30 * time.Second
	}
	if h.Scale.Workers == 0 {
		h.Scale.Workers = 16
	}
	if h.Scale.Rounds == 0 {
		h.Scale.Rounds = 200
	}
}

// missing names the required fields of b that are not there.
func (h *Harness[Tx]) missing(b Bundle[Tx]) []string {
	var names []string
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Messenger", b.Messenger == nil},
		{"Write", b.Write == nil},
		{"Rows", b.Rows == nil},
		{"Nested", b.Nested == nil},
		{"Topic", b.Topic == nil},
		{"Receive", b.Receive == nil},
		{"Quiesce (required without Abilities.Order)", b.Quiesce == nil && !h.Abilities.Order},
	} {
		if field.missing {
			names = append(names, field.name)
		}
	}
	return names
}

package localtable

import (
	"context"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Lanes is the number of lanes that a database with several relays has. A row's lane is a hash that the
// database computes; the rows of a key have one lane. A database that has one writer anyway, such as SQLite, has one lane.
const Lanes = 64

// Store is what Messenger and relay need of a database. Its methods may be called by many goroutines and processes at
// once. Every time is the database's clock. Package storetest tests these sentences.
type Store[Tx any] interface {
	txmsg.Database[Tx]

	// Insert returns the statements that write entries in their order, state ready, or waiting where Delay is set.
	// They are run by Transaction.Commit or Database.Exec. Every statement either writes all its entries or none.
	Insert(entries []Entry) []txmsg.Statement

	// Lease reports owner alive, renews its lanes for ttl from now and takes free or expired ones until it has its fair
	// share of the lanes among the live owners: between lanes/owners rounded down and rounded up. An owner is live
	// until its last Lease plus its ttl. A lane taken gets a new, larger epoch; one renewed keeps its own. No two owners
	// hold a lane at once.
	Lease(ctx context.Context, owner string, ttl time.Duration) (Lease, error)

	// Release gives up lanes, those of them that owner still holds, so that others may take them at once. With no lanes it
	// gives up all and reports owner gone.
	Release(ctx context.Context, owner string, lanes ...Lane) error

	// Read returns at most limit rows of one destination and these lanes that are due: ready ones, in each lane from
	// the first written on, retry and waiting ones whose time has come. When there are more than limit, some of
	// both are returned: neither a backlog nor a crowd of retries keeps the other out. It changes and locks nothing.
	// A row is held back by the heads of its key before it, which are those in retry or dead and holding, and by the parked
	// ones. One that is held back by a row not among those returned is a Follower. The rows of one key are in the order in
	// which they were written. Delayed rows are outside all order: they neither follow nor hold back. Its cost depends
	// neither on rows in other states nor on the length of the backlog.
	Read(ctx context.Context, destination string, lanes []Lane, limit int) ([]Row, error)

	// Others returns at most limit rows of one destination and these lanes that are ready, of topics other than these, and
	// before which no ready row of their key stands. Those that are held back are Followers. It changes and locks nothing.
	// Its cost may grow with the number of ready rows: it is for a probe that would find only these topics.
	Others(ctx context.Context, destination string, lanes []Lane, topics []string, limit int) ([]Row, error)

	// Settle writes the results of one batch in one statement or transaction, and returns how many rows it changed. A result
	// changes its row only if owner holds the row's lane in the epoch given, and the row still has the revision that
	// was read: else someone else has decided, or the same settlement came before. Dead, and Retry if it is not spared,
	// add one to the row's attempts. See [Settlement].
	Settle(ctx context.Context, settlement Settlement) (changed int, err error)

	// Sweep makes ready, in order and at most limit, the parked rows of these lanes that no head of their key
	// stands before, and returns how many.
	Sweep(ctx context.Context, owner string, lanes []Lane, limit int) (int, error)

	// PruneMessages removes at most limit delivered rows that were kept and are older than retention, or a whole day of them
	// at once where that is one step, and prepares the space for those to come. A day that goes as a whole goes when its
	// last row is old enough. It never touches rows that are not delivered. It returns how many rows it removed.
	PruneMessages(ctx context.Context, retention time.Duration, limit int) (int, error)

	// Status counts, from the table.
	Status(ctx context.Context) (Status, error)

	// Notify wakes those who listen to these tables, in every process. That nobody does is no error. It is outside every
	// transaction, and does not wait for one to end. A database that has no such means answers [txmsg.ErrUnsupported].
	Notify(ctx context.Context) error

	// Listen calls heard as soon as it is proven that notifications arrive, since rows may have been committed before, and
	// after each Notify that follows, once or once for several, one call at a time. It returns nil when ctx ends, and an
	// error when notifications may be missed from then on. It is [ErrDeaf] if it found that none arrive,
	// [txmsg.ErrUnsupported] if the database has no such means.
	Listen(ctx context.Context, heard func()) error
}

// Entry is a message to write, with the name of the destination that is to get it.
type Entry struct {
	Destination string
	Message     txmsg.Message
}

// Lane is the right to settle the rows of one lane, in one epoch.
type Lane struct {
	Number int
	Epoch  int64
}

// Lease is what an owner holds.
type Lease struct {
	Lanes []Lane
	// Surplus is how many of Lanes the owner should release because others hold fewer than their share. When every live
	// owner leases and releases its surplus in turn, each has its share after a few rounds, and Surplus stays 0.
	Surplus int
	// Expired is how many lanes this call freed because the time of their owner, another one, was over. Each is told once.
	Expired int
	// Now is the database's time.
	Now time.Time
}

// Row is a row that is due.
type Row struct {
	Lane        int
	Seq         int64 // order of writing
	Revision    int64 // grows with every change of the row
	Place       int64 // where the store has found it, given back unchanged; it may take a row that was moved since for one that has changed
	Destination string
	Message     txmsg.Message // Delay is 0
	Delayed     bool          // it was written with a delay: outside the order of its key
	Attempts    int           // spent so far
	Head        bool          // it failed, and later rows of its key may be parked behind it
	Follower    bool
	Created     time.Time
}

// Fate is what became of a row in a batch.
type Fate int

// The fates. A row that met an outage has none: it is not settled and stays as it is.
const (
	Delivered Fate = iota + 1 // the broker has it
	Retry                     // not stored: try again after the result's delay
	Dead                      // refused for good: kept for a person
	Parked                    // not sent: waits behind an earlier row of its key
)

// Result is one row's fate.
type Result struct {
	Row    Row
	Fate   Fate
	After  time.Duration // of Retry
	Spared bool          // of Retry: spends no attempt
	Error  string        // of Retry and Dead: kept as the row's history, newest last, unless empty
	Class  Class         // of Retry and Dead, with an Error
}

// Class is what a broker's error says of its message.
type Class string

// The classes; an outage, which says nothing of a message, has none.
const (
	ClassRefused  Class = "refused"   // not now: it is tried again
	ClassTooLarge Class = "too_large" // never
	ClassNoRoute  Class = "no_route"  // not before someone makes the topic
)

// Settlement is the outcome of one batch.
type Settlement struct {
	Owner   string
	Lanes   []Lane // as they were when the batch was read
	Results []Result

	// Archive keeps delivered rows with their time of delivery until PruneMessages; else they are deleted at once. Either way they
	// leave the table of unsent rows.
	Archive bool
	// DeadHolds makes a row that dies hold back its key until a person decides.
	DeadHolds bool
	// Unpark is the most parked rows that are made ready when heads of their keys are delivered or die without holding: of each key
	// in order and up to its next head, and as many of one as of another, one at least. Sweep finds the others. A Parked result is written only if
	// its row is held back when all that has been done; else the row stays as it is, revision and all.
	Unpark int
	// Errors is the most errors that a row's history keeps.
	Errors int
}

// Frees reports whether nothing is left of a result's row that could hold back its key: it was delivered, or died without holding.
func (s Settlement) Frees(r Result) bool {
	return r.Fate == Delivered || r.Fate == Dead && !s.DeadHolds
}

// UnparkShare is how many parked rows of each of so many keys, at least one, are made ready when unpark is the most of them all,
// as [Settlement.Unpark] says.
func UnparkShare(unpark, keys int) int { return min(unpark, max(1, unpark/keys)) }

// Status describes the table.
type Status struct {
	Ready, Waiting, Retry, Parked, Dead int64
	// OldestUnsent is the age of the oldest row that is due and not delivered, 0 when there is none.
	OldestUnsent time.Duration
	// Destinations are the names of those that have rows that are ready, waiting or in retry, in the order of their bytes.
	Destinations []string
	// OldestSnapshot is the age of the oldest transaction known to keep the database from clearing away what is dead in its
	// tables, 0 when there is none. Reads cost more while it lasts.
	OldestSnapshot time.Duration
}

package checker

import (
	"context"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Store is what the half-message protocol needs of a database. Its methods may be called by many goroutines and
// processes. A half's ID is a UUIDv7, new for every try to store one. Package storetest tests these sentences.
type Store[Tx any] interface {
	txmsg.Database[Tx]

	// Identity returns a text that is the same for every process that uses this database and schema, and no other: the
	// owner that half messages carry. It is made once, in the database.
	Identity(ctx context.Context) (string, error)

	// Record writes the record of a half, state committed, inside tx; it counts once tx commits. A tombstone of the
	// half, that is a check that has decided, is an error that wraps [txmsg.ErrLostRace], and tx can no longer commit.
	Record(ctx context.Context, tx Tx, halfID string) error

	// Forget deletes inside tx the record that tx has written for a half that will not be used.
	Forget(ctx context.Context, tx Tx, halfID string) error

	// Fence answers a check, on a connection of its own: it tries to insert a rolled-back tombstone for the half.
	// Committed only for a committed record that was read; RolledBack only if the tombstone stands, and then no
	// transaction can record the half any more. Unknown without an error: a transaction that records the half is
	// open and did not end within wait. Unknown with an error on everything else. The answers Committed and RolledBack
	// never change.
	Fence(ctx context.Context, halfID string, wait time.Duration) (txmsg.Outcome, error)

	// PruneHalves removes at most limit records and tombstones older than retention by the time in their ID, and returns
	// how many.
	PruneHalves(ctx context.Context, retention time.Duration, limit int) (int, error)
}

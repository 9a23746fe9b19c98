package consumer

import (
	"context"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Store is what the pipeline needs of a database. Its methods may be called by many goroutines and processes. Package
// storetest tests these sentences.
type Store[Tx any] interface {
	// Mark writes the inbox row of a message inside tx and reports whether it is the first. A simultaneous Mark of the
	// same consumer and message waits until the other transaction has ended: false if that committed, true if not.
	Mark(ctx context.Context, tx Tx, consumer, messageID string) (first bool, err error)

	// Bury writes a dead letter, on a connection of its own. The same consumer and message again replaces it. The
	// letter's texts are valid UTF-8 without NUL, of any length; the body is any bytes.
	Bury(ctx context.Context, letter DeadLetter) error

	// PruneInbox removes at most limit inbox rows older than retention, whichever consumer's, and returns how many.
	PruneInbox(ctx context.Context, retention time.Duration, limit int) (int, error)
}

// DeadLetter is a message that the handler did not accept in its attempts.
type DeadLetter struct {
	Consumer string
	Message  txmsg.Message
	Source   txmsg.Source
	Attempts int
	Errors   []string // of the last attempts, oldest first; a panic's with its stack
}

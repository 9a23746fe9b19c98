package checker

import (
	"context"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Checker tells from a service's own data whether the transaction that published a message committed: "is order 7
// paid?". It is asked about a half that is too old for its record to be relied on, and about no other, since the record
// knows which run of a transaction stored the half and business data does not.
type Checker interface {
	// Check returns Committed only if it read that the transaction committed. Every other answer counts as
	// Unknown, RolledBack included: what is missing proves nothing. It may be called by many goroutines.
	Check(ctx context.Context, m txmsg.Message) (txmsg.Outcome, error)
}

// Half is a half message that a broker asks about.
type Half struct {
	ID      string        // under which its record was written
	Owner   string        // the [Store.Identity] of the database that holds the record
	Message txmsg.Message // for a Checker; may be incomplete
}

// Verdict is the answer to a check.
type Verdict struct {
	Outcome txmsg.Outcome
	Reason  Reason
	Err     error // what the database met, if anything
}

// Reason tells how a verdict came about.
type Reason string

// The reasons. All but the first three come with Unknown.
const (
	ReasonRecord       Reason = "record"        // committed: the record was read
	ReasonTombstone    Reason = "tombstone"     // rolled back: the tombstone stands
	ReasonOwn          Reason = "own"           // committed: the service's own Checker said so
	ReasonOpen         Reason = "open"          // the transaction has not ended
	ReasonUnavailable  Reason = "unavailable"   // the database failed
	ReasonShortCircuit Reason = "short_circuit" // the database failed a moment ago and was not asked
	ReasonTimeout      Reason = "timeout"       // the database did not answer in time
	ReasonPanic        Reason = "panic"         // the store or the Checker panicked
	ReasonForeign      Reason = "foreign"       // the half belongs to another database
	ReasonExpired      Reason = "expired"       // the half is older than records are kept
	ReasonMalformed    Reason = "malformed"     // its ID is none of ours
)

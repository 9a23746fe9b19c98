package localtable

import (
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// State is where a row stands that is neither ready nor delivered.
type State string

// The states.
const (
	StateWaiting State = "waiting" // for the end of its delay
	StateRetry   State = "retry"   // not stored by the broker: for its next attempt
	StateParked  State = "parked"  // behind an earlier row of its key
	StateDead    State = "dead"    // for a person; the broker may have it all the same
)

// Held is a row that is neither ready nor delivered, as it was seen.
type Held struct {
	Seq         int64 // order of writing
	Revision    int64 // grows with every change of the row
	State       State
	Destination string
	Message     txmsg.Message // Delay is 0
	Attempts    int           // spent since it was written, or since a person's retry
	Errors      []Failure     // the last ones, newest last
	Created     time.Time
	Due         time.Time // of waiting and retry; else zero
	Holds       bool      // it is in retry or dead, and the later rows of its key wait behind it
}

// Ref is what a verb needs of the row.
func (h Held) Ref() Ref { return Ref{Seq: h.Seq, Revision: h.Revision} }

// Ref names a row as it was seen.
type Ref struct{ Seq, Revision int64 }

// Failure is one attempt that failed.
type Failure struct {
	At    time.Time
	Class Class
	Error string
}

// Filter selects rows. Those that match all of its fields are selected; a zero field matches every row.
// A list that is empty but not nil is refused: it would select nothing.
type Filter struct {
	States      []State
	Destination string
	Topic       string
	Key         string
	IDs         []string  // of messages, at most 1000
	Class       Class     // of the newest error
	Since       time.Time // written then or later
	Until       time.Time // written before then
}

// Verb is what a person decides about a row.
type Verb string

// The verbs.
const (
	VerbRetry   Verb = "retry"   // due now, with all its attempts before it
	VerbSkip    Verb = "skip"    // leaves the table, never sent
	VerbRelease Verb = "release" // stays dead and holds back nothing
)

// takes says which rows the verb changes.
func (v Verb) takes() string {
	switch v {
	case VerbRetry:
		return "dead or in retry"
	case VerbRelease:
		return "dead and holding"
	default:
		return "dead"
	}
}

// Reason is who decides and why. Both are required, and kept in the audit.
type Reason struct {
	Who string // at most 255 bytes
	Why string // at most 2000 bytes
}

// AuditEntry is one decision about one row.
type AuditEntry struct {
	Entry       int64     // grows
	At          time.Time // by the database's clock
	Who, Why    string
	Verb        Verb
	Seq         int64 // of the row
	Revision    int64 // that was seen
	State       State // before
	Attempts    int   // before
	Destination string
	// Message is whole when it was skipped: the entry is all that is left of it. Else it has no body and no headers.
	Message txmsg.Message
	Created time.Time // when it was written
	Errors  []Failure // of a skipped row; else none
}

// AuditFilter selects entries of the audit. Those that match all of its fields are selected; a zero field matches all.
type AuditFilter struct {
	Who         string
	Verb        Verb
	ID          string // of the message
	Destination string
	Topic       string
	Key         string
	Since       time.Time // decided then or later
	Until       time.Time // decided before then
}

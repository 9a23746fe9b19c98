package txmsg

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrOutcomeUnknown: COMMIT was sent and nobody could say in time whether it took effect. Nothing is rolled back
	// or forgotten: if the transaction did commit, its messages are delivered. The error is an
	// [*OutcomeUnknownError] with the message IDs. Do not run the work again without asking the database.
	ErrOutcomeUnknown = errors.New("outcome of the transaction is unknown")

	// ErrUnsupported: the backend lacks an ability that the message asks for; see [UnsupportedError].
	ErrUnsupported = errors.New("not supported by this backend")

	// ErrNested: Transact was called inside the callback of another Transact. The inner one would need a second
	// connection while the outer holds one, which locks a full pool up for ever.
	ErrNested = errors.New("Transact inside the callback of a Transact")

	// ErrPublisherClosed: Publish was called after the callback that the Publisher was given to had returned.
	ErrPublisherClosed = errors.New("publisher used after its transaction ended")

	// ErrRolledBack: the transaction is known to have been rolled back although the callback asked for a commit,
	// for instance because it swallowed an error that the database had answered with an abort.
	ErrRolledBack = errors.New("transaction was rolled back")

	// ErrLostRace: a check or another run decided first; nothing was committed and running the callback again
	// may succeed. Transact does so by itself and returns it only when its runs are used up.
	ErrLostRace = errors.New("lost the race for the transaction's record")

	// ErrClosed: the messenger has been shut down or is draining and takes no new transactions.
	ErrClosed = errors.New("messenger is closed")
)

// Classes of a broker's answer. Every error that a broker returns for a message wraps exactly one of them; the relay's
// treatment depends on nothing else.
var (
	// ErrOutage: the broker could not be reached or did not answer in time. It may or may not have stored the message.
	// It says nothing about the message and spends no attempt.
	ErrOutage = errors.New("broker unreachable")
	// ErrRefused: the broker answered and did not store the message. It spends an attempt.
	ErrRefused = errors.New("broker refused the message")
	// ErrTooLarge: the message exceeds the broker's limit. Trying again does not help.
	ErrTooLarge = errors.New("message too large")
	// ErrNoRoute: the topic, stream or queue does not exist.
	ErrNoRoute = errors.New("no route for the topic")
)

// OutcomeUnknownError carries the messages whose fate is not known; errors.Is finds [ErrOutcomeUnknown].
type OutcomeUnknownError struct {
	MessageIDs []string // of the messages that the transaction published; may be empty
	Err        error    // what the database answered to COMMIT
}

func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("txmsg: %v (messages: %s): %v", ErrOutcomeUnknown, strings.Join(e.MessageIDs, ", "), e.Err)
}

func (e *OutcomeUnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.Err} }

// UnsupportedError names the ability that the backend lacks; errors.Is finds [ErrUnsupported].
type UnsupportedError struct {
	Ability string // the field of [Abilities]
	Reason  string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("txmsg: %s: %v: %s", e.Ability, ErrUnsupported, e.Reason)
}

func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

// InvalidMessageError names the field of a message that breaks a rule, and the rule. The transaction stays usable.
type InvalidMessageError struct {
	Field string // "Topic", `Headers["x"]`, …
	Value string // what was given; shortened by Error
	Rule  string // what is allowed
	Err   error  // a class such as [ErrTooLarge], or nil
}

func (e *InvalidMessageError) Error() string {
	value := e.Value
	if len(value) > 64 {
		value = value[:64] + "…"
	}
	return fmt.Sprintf("txmsg: Message.%s %s, got %q", e.Field, e.Rule, value)
}

func (e *InvalidMessageError) Unwrap() error { return e.Err }

// CheckSize returns an [*InvalidMessageError] that wraps [ErrTooLarge] when m is larger than limit bytes; brokers call
// it in their Check.
func CheckSize(m Message, limit int) error {
	if size := m.Size(); size > limit {
		return &InvalidMessageError{
			Field: "Body", Value: fmt.Sprintf("%d bytes", size), Err: ErrTooLarge,
			Rule: fmt.Sprintf("with key and headers must be at most %d bytes", limit),
		}
	}
	return nil
}

package consumer

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// Permanent marks an error of a handler that no other attempt will mend: the message is buried at once. Permanent of nil
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

func isPermanent(err error) bool {
	permanent := new(permanentError)
	return errors.As(err, &permanent)
}

// AbandonedError is returned by [Consumer.Run] when handlers ignored the end of their context until the deadline. Their
// messages are not acknowledged and come again. What such a handler does later is rolled back: its transaction can no
// longer commit. It holds its connection until it returns, so the process should end.
type AbandonedError struct {
	MessageIDs []string
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("consumer: handlers left behind at the deadline (messages: %s)", strings.Join(e.MessageIDs, ", "))
}

// What deliver answers for a message that it does not acknowledge.
var (
	errStopping  = errors.New("consumer: shutting down")
	errAbandoned = errors.New("consumer: handler left behind at the deadline")
)

var (
	// errDraining is the cause of the end of a handler's context at shutdown.
	errDraining = errors.New("consumer: drain timeout has passed")
	// errStuck is the cause when the database takes too long around the handler.
	errStuck = errors.New("consumer: the database did not answer in time")
	// errProbe rolls back the transaction of a probe.
	errProbe = errors.New("consumer: probe")
	// errExited: runtime.Goexit, as t.FailNow does it.
	errExited = errors.New("handler ended its goroutine")
)

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack []byte
}

// newPanicError is called by the deferred function that recovered.
func newPanicError(value any) *panicError { return &panicError{value, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// history is the text of err in a dead letter.
func history(err error) string {
	text := err.Error()
	if panicked := new(panicError); errors.As(err, &panicked) {
		text += "\n\n" + string(panicked.stack)
	}
	return text
}

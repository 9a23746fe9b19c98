package localtable

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDeaf is returned by [Store.Listen]: the database accepted it and notifications do not arrive, as through a pooler that
// gives each transaction another connection.
var ErrDeaf = errors.New("notifications do not arrive")

// ArgumentError is what an [Operator] answers to bad input, before it asks the database.
type ArgumentError struct {
	Field string // "Reason.Who", "Filter.Key", …
	Rule  string // what is allowed
	Value string // what was given; shortened by Error
}

func (e *ArgumentError) Error() string {
	value := e.Value
	if len(value) > 64 {
		value = strings.ToValidUTF8(value[:64], "") + "…"
	}
	return fmt.Sprintf("localtable: %s %s, got %q", e.Field, e.Rule, value)
}

// DecidedError is what Skip and Release answer when some of the rows were no longer what the caller had seen: another person
// or a relay has decided meanwhile, or this call came before. These rows are as they were; the others of the call are changed.
type DecidedError struct {
	Verb Verb
	Refs []Ref // the rows that were left
}

func (e *DecidedError) Error() string {
	left := make([]string, len(e.Refs))
	for i, ref := range e.Refs {
		left[i] = fmt.Sprintf("%d (revision %d)", ref.Seq, ref.Revision)
	}
	return fmt.Sprintf("localtable: %s: no longer %s with the revision that was seen: %s", e.Verb, e.Verb.takes(), strings.Join(left, ", "))
}

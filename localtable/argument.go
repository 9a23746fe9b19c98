package localtable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	whoMost = 255
	whyMost = 2000
	idsMost = 1000
)

func (r Reason) validate() error {
	return errors.Join(validateWords("Reason.Who", r.Who, whoMost), validateWords("Reason.Why", r.Why, whyMost))
}

// validateWords checks what a person has to say.
func validateWords(field, words string, most int) error {
	rule := ""
	switch {
	case strings.TrimSpace(words) == "":
		rule = "must not be empty"
	case len(words) > most:
		rule = fmt.Sprintf("must be at most %d bytes", most)
	case !utf8.ValidString(words):
		rule = "must be valid UTF-8"
	case strings.ContainsFunc(words, unicode.IsControl):
		rule = "must hold no control characters"
	default:
		return nil
	}
	return &ArgumentError{Field: field, Rule: rule, Value: words}
}

func (f Filter) validate() error {
	problems := []error{
		validateText("Filter.Destination", f.Destination), validateText("Filter.Topic", f.Topic),
		validateText("Filter.Key", f.Key),
	}
	if !slices.Contains([]Class{"", ClassRefused, ClassTooLarge, ClassNoRoute}, f.Class) {
		problems = append(problems, &ArgumentError{Field: "Filter.Class", Rule: "must be refused, too_large or no_route", Value: string(f.Class)})
	}
	if f.States != nil && len(f.States) == 0 {
		problems = append(problems, &ArgumentError{Field: "Filter.States", Rule: "must be nil or hold a state: an empty list would match nothing"})
	}
	if f.IDs != nil && len(f.IDs) == 0 {
		problems = append(problems, &ArgumentError{Field: "Filter.IDs", Rule: "must be nil or hold an id: an empty list would match nothing"})
	}
	for i, state := range f.States {
		if !slices.Contains([]State{StateWaiting, StateRetry, StateParked, StateDead}, state) {
			problems = append(problems, &ArgumentError{
				Field: fmt.Sprintf("Filter.States[%d]", i), Rule: "must be waiting, retry, parked or dead", Value: string(state),
			})
		}
	}
	if len(f.IDs) > idsMost {
		problems = append(problems, &ArgumentError{Field: "Filter.IDs", Rule: fmt.Sprintf("must be at most %d", idsMost), Value: fmt.Sprint(len(f.IDs))})
	}
	for i, id := range f.IDs {
		problems = append(problems, validateText(fmt.Sprintf("Filter.IDs[%d]", i), id))
	}
	return errors.Join(problems...)
}

func (f AuditFilter) validate() error {
	problems := []error{
		validateText("AuditFilter.Who", f.Who), validateText("AuditFilter.ID", f.ID),
		validateText("AuditFilter.Destination", f.Destination), validateText("AuditFilter.Topic", f.Topic),
		validateText("AuditFilter.Key", f.Key),
	}
	if !slices.Contains([]Verb{"", VerbRetry, VerbSkip, VerbRelease}, f.Verb) {
		problems = append(problems, &ArgumentError{Field: "AuditFilter.Verb", Rule: "must be retry, skip or release", Value: string(f.Verb)})
	}
	return errors.Join(problems...)
}

// validateText refuses what no text of a database holds.
func validateText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return &ArgumentError{Field: field, Rule: "must be valid UTF-8 without NUL", Value: text}
	}
	return nil
}

func validateLimit(limit int) error {
	if limit < 1 || limit > pageMost {
		return &ArgumentError{Field: "limit", Rule: fmt.Sprintf("must be between 1 and %d", pageMost), Value: fmt.Sprint(limit)}
	}
	return nil
}

func validateRefs(refs []Ref) error {
	if len(refs) < 1 || len(refs) > stepMost {
		return &ArgumentError{Field: "refs", Rule: fmt.Sprintf("must be between 1 and %d", stepMost), Value: fmt.Sprint(len(refs))}
	}
	return nil
}

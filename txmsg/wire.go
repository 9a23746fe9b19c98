package txmsg

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// headerPrefix begins the names of the headers that carry the fields of a Message on the wire.
const headerPrefix = "txmsg-"

// Wire headers: how a Message's fields travel on every broker, beside the user's own headers. The topic is the
// broker's topic, the body the broker's payload. A field that is empty has no header, but for the ID.
const (
	HeaderID       = headerPrefix + "id"
	HeaderKey      = headerPrefix + "key"
	HeaderType     = headerPrefix + "type"
	HeaderSequence = headerPrefix + "sequence"
)

// OwnHeaders are the most that [ToWire] adds to the user's headers.
const OwnHeaders = 4

// ToWire yields the names and values of the headers that a broker stores with m's body: the user's and those of the fields. Of a
// valid message no name comes twice.
func ToWire(m Message) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, value := range m.Headers {
			if !yield(name, value) {
				return
			}
		}
		if !yield(HeaderID, m.ID) {
			return
		}
		if m.Key != "" && !yield(HeaderKey, m.Key) {
			return
		}
		if m.Type != "" && !yield(HeaderType, m.Type) {
			return
		}
		if m.Sequence != 0 {
			yield(HeaderSequence, strconv.FormatInt(m.Sequence, 10))
		}
	}
}

// FromWire builds the message that a subscriber read. headers may hold more than ToWire wrote: names reserved by a
// broker are left out. A message that another producer wrote has no ID; it gets fallbackID, which the subscriber makes
// of the place where it stands in the broker, so that copies of the delivery agree. An error holds an
// [*InvalidMessageError] for each field of ours that breaks the rules of [Message]; the field keeps its fallback or stays empty.
func FromWire(topic string, body []byte, headers map[string]string, fallbackID string) (Message, error) {
	m := Message{ID: fallbackID, Topic: topic, Body: body}
	if m.Body == nil {
		m.Body = []byte{}
	}
	var problems []error
	for _, text := range []struct {
		name  string
		field *string
		limit int
	}{{HeaderID, &m.ID, MaxIDBytes}, {HeaderKey, &m.Key, MaxKeyBytes}, {HeaderType, &m.Type, MaxTypeBytes}} {
		value := headers[text.name]
		if rule := checkText(value, text.limit); rule != "" {
			problems = append(problems, &InvalidMessageError{Field: fmt.Sprintf("Headers[%q]", text.name), Value: value, Rule: rule})
		} else if value != "" {
			*text.field = value
		}
	}
	if value, ok := headers[HeaderSequence]; ok {
		sequence, err := strconv.ParseInt(value, 10, 64)
		if err != nil || sequence < 0 {
			problems = append(problems, &InvalidMessageError{Field: fmt.Sprintf("Headers[%q]", HeaderSequence), Value: value, Rule: "must be a whole number, not negative"})
		} else {
			m.Sequence = sequence
		}
	}
	m.Headers = userHeaders(headers)
	return m, errors.Join(problems...)
}

// userHeaders returns the headers that are neither fields of ours nor reserved by a broker, or nil.
func userHeaders(headers map[string]string) map[string]string {
	var own map[string]string
	for name, value := range headers {
		switch {
		case name == HeaderID || name == HeaderKey || name == HeaderType || name == HeaderSequence:
			continue
		case reservedHeader(name) && !strings.HasPrefix(name, headerPrefix):
			continue
		}
		if own == nil {
			own = make(map[string]string)
		}
		own[name] = value
	}
	return own
}

package txmsg

import (
	"fmt"
	"maps"
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

// ToWire returns the headers that a broker stores with m's body: the user's and those of the fields. The map is new.
func ToWire(m Message) map[string]string {
	headers := make(map[string]string, len(m.Headers)+4)
	maps.Copy(headers, m.Headers)
	headers[HeaderID] = m.ID
	if m.Key != "" {
		headers[HeaderKey] = m.Key
	}
	if m.Type != "" {
		headers[HeaderType] = m.Type
	}
	if m.Sequence != 0 {
		headers[HeaderSequence] = strconv.FormatInt(m.Sequence, 10)
	}
	return headers
}

// FromWire builds the message that a subscriber read. headers may hold more than ToWire wrote: names reserved by a
// broker are left out. A message that another producer wrote has no ID; it gets fallbackID, which the subscriber makes
// of the place where it stands in the broker, so that copies of the delivery agree. An error is an
// [*InvalidMessageError]: a field of ours that does not parse; the message holds the others.
func FromWire(topic string, body []byte, headers map[string]string, fallbackID string) (Message, error) {
	var problem error
	m := Message{ID: fallbackID, Topic: topic, Body: body}
	if m.Body == nil {
		m.Body = []byte{}
	}
	for name, value := range headers {
		switch name {
		case HeaderID:
			if value != "" {
				m.ID = value
			}
		case HeaderKey:
			m.Key = value
		case HeaderType:
			m.Type = value
		case HeaderSequence:
			sequence, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				problem = &InvalidMessageError{Field: fmt.Sprintf("Headers[%q]", name), Value: value, Rule: "must be a whole number"}
				continue
			}
			m.Sequence = sequence
		default:
			if reservedHeader(name) && !strings.HasPrefix(name, headerPrefix) {
				continue
			}
			if m.Headers == nil {
				m.Headers = make(map[string]string)
			}
			m.Headers[name] = value
		}
	}
	return m, problem
}

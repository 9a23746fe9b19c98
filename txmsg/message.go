package txmsg

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Lengths that [Message.Validate] allows, in bytes. They are the smallest of the brokers' own, so that a message
// that one backend accepts is not refused by the next one.
const (
	MaxTopicBytes       = 127 // RocketMQ's limit; Kafka allows 249
	MaxIDBytes          = 128
	MaxKeyBytes         = 255
	MaxTypeBytes        = 255
	MaxHeaderNameBytes  = 127
	MaxHeaderTotalBytes = 16384 // names and values together; RocketMQ keeps all properties in 32 KiB
)

const maxSequenceDigits = 19

// Message is one event. Two messages with one ID are copies of the same event, whatever else they carry.
type Message struct {
	// ID is the event's identity: a new UUIDv7 when empty. It never changes again: retry, rescue, replay and a
	// change of the broker keep it. Consumers drop what they have already applied by it.
	ID string
	// Topic is where the message goes: letters, digits, '-', '_', and single '.' inside. A broker may allow less.
	Topic string
	// Key orders: messages of one key keep the order in which their transactions wrote them, where the backend
	// can ([Abilities]). Usually the aggregate's id. Empty: no order asked for.
	Key string
	// Type names the event, as in "order.created".
	Type string
	// Sequence is the aggregate's own version, carried to the consumer; 0 when not used.
	Sequence int64
	// Body is opaque and reaches the consumer byte for byte. Nil and empty are the same: the consumer gets an empty,
	// non-nil slice.
	Body []byte
	// Headers reach the consumer as they are. Names are letters, digits, '-', '_' and '.', case kept; names that
	// a broker reserves are refused everywhere.
	Headers map[string]string
	// Delay is the earliest delivery after the write. A delayed message leaves the order of its key.
	Delay time.Duration
}

// NewID returns a new UUIDv7: unique, and rising with time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Size is what counts against a broker's limit, in bytes: the body, the key, and all headers with ours. It is an upper
// bound: fields that are empty count with the names of their headers.
func (m Message) Size() int {
	size := 2*len(m.Key) + len(m.Body) + len(m.ID) + len(m.Type) +
		len(HeaderID) + len(HeaderKey) + len(HeaderType) + len(HeaderSequence) + maxSequenceDigits
	for name, value := range m.Headers {
		size += len(name) + len(value)
	}
	return size
}

// Clone returns a copy that shares no memory with m.
func (m Message) Clone() Message {
	m.Body = append(make([]byte, 0, len(m.Body)), m.Body...)
	m.Headers = maps.Clone(m.Headers)
	return m
}

// Equal reports whether m and other are the same message as a consumer sees it: every field but Delay, an empty
// body equal to a nil one.
func (m Message) Equal(other Message) bool {
	return m.ID == other.ID && m.Topic == other.Topic && m.Key == other.Key && m.Type == other.Type &&
		m.Sequence == other.Sequence && bytes.Equal(m.Body, other.Body) && maps.Equal(m.Headers, other.Headers)
}

// Validate checks the rules that hold on every backend and returns an [*InvalidMessageError] that names the first
// field that breaks one. The size is not checked here: it depends on the broker.
func (m Message) Validate() error {
	if len(m.Topic) > MaxTopicBytes || !isTopic(m.Topic) {
		return &InvalidMessageError{Field: "Topic", Value: m.Topic, Rule: fmt.Sprintf("must be 1 to %d letters, digits, '-', '_' and single '.' inside", MaxTopicBytes)}
	}
	for _, text := range []struct {
		field, value string
		limit        int
	}{{"ID", m.ID, MaxIDBytes}, {"Key", m.Key, MaxKeyBytes}, {"Type", m.Type, MaxTypeBytes}} {
		if rule := checkText(text.value, text.limit); rule != "" {
			return &InvalidMessageError{Field: text.field, Value: text.value, Rule: rule}
		}
	}
	if m.Sequence < 0 {
		return &InvalidMessageError{Field: "Sequence", Value: fmt.Sprint(m.Sequence), Rule: "must not be negative"}
	}
	if m.Delay < 0 {
		return &InvalidMessageError{Field: "Delay", Value: m.Delay.String(), Rule: "must not be negative"}
	}
	return m.validateHeaders()
}

func (m Message) validateHeaders() error {
	total := 0
	for name, value := range m.Headers {
		if rule := checkHeader(name, value); rule != "" {
			return &InvalidMessageError{Field: fmt.Sprintf("Headers[%q]", name), Value: value, Rule: rule}
		}
		total += len(name) + len(value)
	}
	if total > MaxHeaderTotalBytes {
		return &InvalidMessageError{Field: "Headers", Value: fmt.Sprintf("%d bytes", total), Rule: fmt.Sprintf("must be at most %d bytes together", MaxHeaderTotalBytes)}
	}
	return nil
}

// checkHeader returns the broken rule, or "".
func checkHeader(name, value string) string {
	switch {
	case len(name) > MaxHeaderNameBytes || !isHeaderName(name):
		return fmt.Sprintf("the name must be 1 to %d letters, digits, '-', '_' and '.', a letter or digit first", MaxHeaderNameBytes)
	case reservedHeader(name):
		return "the name is reserved by a broker or by this library"
	case value == "":
		return "must not be empty: brokers drop empty values"
	}
	return checkText(value, MaxHeaderTotalBytes)
}

func isTopic(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || !only(part, "_-") {
			return false
		}
	}
	return true
}

func isHeaderName(text string) bool {
	return text != "" && only(text[:1], "") && only(text, "._-")
}

// only reports whether text is nothing but ASCII letters and digits and what marks holds. It is no regular expression, which would
// take three times as long: every message is checked when it is written and again before it is sent.
func only(text, marks string) bool {
	for i := range len(text) {
		b := text[i]
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte(marks, b) >= 0) {
			return false
		}
	}
	return true
}

// checkText returns the broken rule, or "". Control characters would forge properties in RocketMQ and headers in
// NATS; outer white space does not survive the header syntax of NATS and HTTP.
func checkText(text string, limit int) string {
	switch {
	case len(text) > limit:
		return fmt.Sprintf("must be at most %d bytes", limit)
	case only(text, ":._-"): // most texts
		return ""
	case !utf8.ValidString(text):
		return "must be valid UTF-8"
	case strings.ContainsFunc(text, unicode.IsControl):
		return "must hold no control characters"
	case strings.TrimSpace(text) != text:
		return "must not begin or end with white space"
	}
	return ""
}

// reservedHeader reports whether a broker or this library gives name a meaning of its own. The list is the union
// over all brokers, so that a program keeps working when its configuration names another one.
func reservedHeader(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(lower, headerPrefix) || strings.HasPrefix(lower, "nats-") || rocketProperties[strings.ToUpper(name)]
}

// rocketProperties are the system properties of RocketMQ 5.3 (org.apache.rocketmq.common.message.MessageConst).
var rocketProperties = func() map[string]bool {
	names := `KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
		ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
		EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME TRAN_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES
		CHECK_IMMUNITY_TIME_IN_SECONDS INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME
		CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY __TRANSACTIONID__ SHARDING_KEY SHARDINGKEY
		DUP_INFO EXTEND_INFO BNAME BORN_HOST BORN_TIMESTAMP INNER_NUM INNER_BASE INNER_MULTI_DISPATCH
		INNER_MULTI_QUEUE_OFFSET DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID TIMER_DELAY_SEC TIMER_DELAY_MS
		TIMER_DELIVER_MS TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_DEL_UNIQKEY
		TIMER_DELAY_LEVEL TIMER_LOG_INDEX CRC32 __CRC32# OFFSET_MSG_ID TRAN_CHECK_TIMES`
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}()

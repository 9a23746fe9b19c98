package txmsg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestNewIDIsUUIDv7AndRises(t *testing.T) {
	first, second := NewID(), NewID()
	require.Less(t, first, second)
	require.EqualValues(t, 7, uuid.MustParse(first).Version())
}

func TestMessageValidate(t *testing.T) {
	long := strings.Repeat("x", 300)
	valid := map[string]Message{
		"least":        {Topic: "t"},
		"dotted topic": {Topic: "a.b-c_d.E9"},
		"every field": {
			ID: "id", Topic: "t", Key: "klíč 鍵", Type: "a.b", Sequence: 1, Body: []byte{0xff}, Delay: time.Hour,
			Headers: map[string]string{"a": "b", "X-Case": "ž 🐎", "1.x_y": "="},
		},
		"at the limits": {
			Topic: long[:MaxTopicBytes], ID: long[:MaxIDBytes], Key: long[:MaxKeyBytes], Type: long[:MaxTypeBytes],
			Headers: map[string]string{long[:MaxHeaderNameBytes]: strings.Repeat("v", MaxHeaderTotalBytes-MaxHeaderNameBytes)},
		},
	}
	for name, m := range valid {
		t.Run(name, func(t *testing.T) { require.NoError(t, m.Validate()) })
	}
	invalid := []struct {
		field string
		m     Message
	}{
		{"Topic", Message{}},
		{"Topic", Message{Topic: "."}},
		{"Topic", Message{Topic: "a..b"}},
		{"Topic", Message{Topic: ".a"}},
		{"Topic", Message{Topic: "a."}},
		{"Topic", Message{Topic: "a b"}},
		{"Topic", Message{Topic: "a\n"}},
		{"Topic", Message{Topic: "a*"}},
		{"Topic", Message{Topic: "%RETRY%g"}},
		{"Topic", Message{Topic: "ž"}},
		{"Topic", Message{Topic: long[:MaxTopicBytes+1]}},
		{"ID", Message{Topic: "t", ID: "a\x01b"}},
		{"ID", Message{Topic: "t", ID: long[:MaxIDBytes+1]}},
		{"Key", Message{Topic: "t", Key: "a\xff"}},
		{"Key", Message{Topic: "t", Key: " a"}},
		{"Key", Message{Topic: "t", Key: "a\u00a0"}},
		{"Key", Message{Topic: "t", Key: long[:MaxKeyBytes+1]}},
		{"Type", Message{Topic: "t", Type: "a\r\nb"}},
		{"Type", Message{Topic: "t", Type: "a\u0085b"}},
		{"Type", Message{Topic: "t", Type: long[:MaxTypeBytes+1]}},
		{"Sequence", Message{Topic: "t", Sequence: -1}},
		{"Delay", Message{Topic: "t", Delay: -1}},
		{"Headers", Message{Topic: "t", Headers: map[string]string{"a": strings.Repeat("v", MaxHeaderTotalBytes)}}},
	}
	for _, c := range invalid {
		t.Run(fmt.Sprintf("%s in %.60q", c.field, fmt.Sprintf("%+v", c.m)), func(t *testing.T) {
			var problem *InvalidMessageError
			require.ErrorAs(t, c.m.Validate(), &problem)
			require.Equal(t, c.field, problem.Field)
			require.NotEmpty(t, problem.Rule)
			require.Less(t, len(problem.Error()), 400, "a bad value does not fill the log")
		})
	}
}

func TestMessageValidateHeaders(t *testing.T) {
	long := strings.Repeat("x", MaxHeaderNameBytes+1)
	headers := map[string]string{
		"nul": "a\x00b", "soh": "a\x01b", "stx": "hello\x02TRAN_MSG\x01true", "cr-lf": "a\r\nb", "lf": "a\n", "del": "\x7f", "c1": "a\u0080b",
		"not-utf8": "\xff\xfe", "empty": "", "space-before": " a", "space-after": "a ",
		"TRAN_MSG": "true", "PGROUP": "g", "KEYS": "k", "keys": "k", "UNIQ_KEY": "1", "__SHARDINGKEY": "k",
		"Nats-Msg-Id": "1", "NATS-X": "1", "txmsg-id": "1", "Txmsg-Future": "1",
		"": "a", "a b": "a", "a:b": "a", "a\x01b": "a", "ž": "a", "-a": "a", "_a": "a", ".a": "a", long: "a",
	}
	for name, value := range headers {
		t.Run(fmt.Sprintf("C48 %q: %.20q", name, value), func(t *testing.T) {
			var problem *InvalidMessageError
			err := Message{Topic: "t", Headers: map[string]string{name: value}}.Validate()
			require.ErrorAs(t, err, &problem)
			require.Equal(t, fmt.Sprintf("Headers[%q]", name), problem.Field)
			require.ErrorContains(t, err, fmt.Sprintf("%q", name))
		})
	}
}

func TestMessageCloneSharesNothing(t *testing.T) {
	m := Message{Body: []byte("abc"), Headers: map[string]string{"a": "b"}}
	clone := m.Clone()
	require.True(t, m.Equal(clone))
	m.Body[0], m.Headers["a"] = 'x', "c"
	require.Equal(t, "abc", string(clone.Body))
	require.Equal(t, "b", clone.Headers["a"])
	require.NotNil(t, Message{}.Clone().Body)
}

func TestMessageEqual(t *testing.T) {
	m := Message{ID: "1", Topic: "t", Key: "k", Type: "a", Sequence: 1, Body: []byte("b"), Headers: map[string]string{"a": "b"}}
	for name, change := range map[string]func(*Message){
		"ID":       func(m *Message) { m.ID = "2" },
		"Topic":    func(m *Message) { m.Topic = "u" },
		"Key":      func(m *Message) { m.Key = "" },
		"Type":     func(m *Message) { m.Type = "" },
		"Sequence": func(m *Message) { m.Sequence++ },
		"Body":     func(m *Message) { m.Body = nil },
		"Headers":  func(m *Message) { m.Headers = nil },
	} {
		other := m.Clone()
		change(&other)
		require.False(t, m.Equal(other), name)
	}
	delayed := m
	delayed.Delay = time.Second
	require.True(t, m.Equal(delayed))
	require.True(t, Message{}.Equal(Message{Body: []byte{}, Headers: map[string]string{}}))
}

func TestSizeIsAnUpperBound(t *testing.T) {
	m := Message{ID: NewID(), Topic: "t", Key: "key", Type: "a.b", Sequence: 1<<63 - 1, Body: make([]byte, 100), Headers: map[string]string{"tenant": "a"}}
	wire := len(m.Body) + len(m.Key)
	for name, value := range ToWire(m) {
		wire += len(name) + len(value)
	}
	require.Equal(t, wire, m.Size())
	require.NoError(t, CheckSize(m, m.Size()))
	require.ErrorIs(t, CheckSize(m, m.Size()-1), ErrTooLarge)
}

func BenchmarkMessageValidate(b *testing.B) {
	m := Message{ID: NewID(), Topic: "orders", Key: "customer-7", Type: "order.created", Body: make([]byte, 300)}
	for _, headers := range []map[string]string{nil, {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tenant": "a"}} {
		b.Run(fmt.Sprint(len(headers), " headers"), func(b *testing.B) {
			m.Headers = headers
			for b.Loop() {
				if err := m.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

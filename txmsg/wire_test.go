package txmsg

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestToWireNamesWhatIsThere(t *testing.T) {
	m := Message{ID: "1", Topic: "t", Headers: map[string]string{"Tenant": "a"}}
	require.Equal(t, map[string]string{"txmsg-id": "1", "Tenant": "a"}, maps.Collect(ToWire(m)))
	m.Key, m.Type, m.Sequence = "k", "order.created", 9007199254740993
	require.Equal(t, map[string]string{
		"txmsg-id": "1", "txmsg-key": "k", "txmsg-type": "order.created", "txmsg-sequence": "9007199254740993", "Tenant": "a",
	}, maps.Collect(ToWire(m)))
	require.Len(t, m.Headers, 1, "the message's own map")
}

func TestToWireEndsWhenItIsToldTo(t *testing.T) {
	m := Message{ID: "1", Key: "k", Type: "t", Sequence: 1}
	require.Len(t, maps.Collect(ToWire(m)), OwnHeaders)
	m.Headers = map[string]string{"Tenant": "a"}
	for end := range OwnHeaders + 1 {
		seen := 0
		for range ToWire(m) {
			if seen++; seen > end {
				break
			}
		}
		require.Equal(t, end+1, seen)
	}
}

func TestFromWireOfAnotherProducer(t *testing.T) {
	headers := map[string]string{"UNIQ_KEY": "AC11", "Nats-Msg-Id": "1", "tenant": "a", "txmsg-owner": "shop"}
	m, err := FromWire("t", nil, headers, "t/0/7")
	require.NoError(t, err)
	require.Equal(t, Message{ID: "t/0/7", Topic: "t", Body: []byte{}, Headers: map[string]string{"tenant": "a", "txmsg-owner": "shop"}}, m)

	m, err = FromWire("t", nil, map[string]string{HeaderID: ""}, "t/0/8")
	require.NoError(t, err)
	require.Equal(t, "t/0/8", m.ID, "an empty ID is none")
}

func TestFromWireMalformed(t *testing.T) {
	sound := map[string]string{HeaderID: "1", HeaderKey: "k", HeaderType: "a", HeaderSequence: "3", "tenant": "a"}
	for name, value := range map[string]string{
		HeaderID: "a\x00b", HeaderKey: "\xff", HeaderType: strings.Repeat("x", MaxTypeBytes+1), HeaderSequence: "three",
	} {
		t.Run(name, func(t *testing.T) {
			headers := maps.Collect(ToWire(Message{Headers: sound}))
			for name, value := range sound {
				headers[name] = value
			}
			headers[name] = value
			want := Message{ID: "1", Topic: "t", Key: "k", Type: "a", Sequence: 3, Body: []byte("b"), Headers: map[string]string{"tenant": "a"}}
			switch name {
			case HeaderID:
				want.ID = "fallback"
			case HeaderKey:
				want.Key = ""
			case HeaderType:
				want.Type = ""
			case HeaderSequence:
				want.Sequence = 0
			}
			got, err := FromWire("t", []byte("b"), headers, "fallback")
			var problem *InvalidMessageError
			require.ErrorAs(t, err, &problem)
			require.Contains(t, problem.Field, name)
			require.Equal(t, want, got, "what could be read")
		})
	}
	for _, sequence := range []string{"-1", "1.5", "", " 1", "9223372036854775808"} {
		_, err := FromWire("t", nil, map[string]string{HeaderID: "1", HeaderSequence: sequence}, "")
		require.Error(t, err, "sequence %q", sequence)
	}
}

// Whatever Validate lets through comes back whole from the wire.
func FuzzWireRoundTrip(f *testing.F) {
	f.Add("1", "orders", "k", "order.created", int64(3), []byte("body"), "tenant", "a")
	f.Add("", "t", "", "", int64(0), []byte(nil), "X-Case", "ž 🐎")
	f.Add("id", "a.b", "klíč", "ž", int64(1<<62), []byte{0, 0xff}, "txmsg-key", "forged")
	f.Add("a\x01b", "t\n", "\xff", " ", int64(-1), []byte("x"), "TRAN_MSG", "true\x02")
	f.Fuzz(func(t *testing.T, id, topic, key, kind string, sequence int64, body []byte, name, value string) {
		m := Message{ID: id, Topic: topic, Key: key, Type: kind, Sequence: sequence, Body: body, Headers: map[string]string{name: value}}
		if m.Validate() != nil {
			return
		}
		if m.ID == "" {
			m.ID = NewID() // as Publish does
		}
		wire := maps.Collect(ToWire(m))
		for name, value := range wire {
			require.NotContains(t, name+value, "\x01")
			require.NotContains(t, name+value, "\x02")
			require.NotContains(t, name+value, "\n")
		}
		got, err := FromWire(m.Topic, m.Body, wire, "fallback")
		require.NoError(t, err)
		require.True(t, m.Equal(got), "want %+v, got %+v", m, got)
		require.NotNil(t, got.Body)
	})
}

// FromWire reads what strangers write: it may refuse, but what it returns as sound obeys the rules of our fields.
func FuzzFromWire(f *testing.F) {
	f.Add([]byte("body"), "1", "k", "a", "3", "tenant", "a")
	f.Add([]byte(nil), "", "\x00", "\xff", "-3", "KEYS", "")
	f.Fuzz(func(t *testing.T, body []byte, id, key, kind, sequence, name, value string) {
		headers := map[string]string{name: value, HeaderID: id, HeaderKey: key, HeaderType: kind, HeaderSequence: sequence}
		m, err := FromWire("t", body, headers, "fallback")
		require.NotEmpty(t, m.ID)
		m.Headers = nil
		require.NoError(t, m.Validate(), "%v", err)
	})
}

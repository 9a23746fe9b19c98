package txmsgtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// requireWhole requires that got is a faithful copy of want.
func requireWhole(t *testing.T, want txmsg.Message, got received) {
	t.Helper()
	require.NoError(t, got.Malformed, "message %s arrived malformed", want.ID)
	require.Equal(t, want.Topic, got.Source.Topic, "source topic of message %s", want.ID)
	require.NotNil(t, got.Message.Body, "body of message %s must be empty, not nil", want.ID)
	if len(want.Headers) == 0 {
		want.Headers = nil
	}
	if len(got.Message.Headers) == 0 {
		got.Message.Headers = nil
	}
	require.Equal(t, want.Headers, got.Message.Headers, "headers of message %s", want.ID)
	// A short text on failure: bodies are up to 256 KiB.
	require.True(t, bytes.Equal(want.Body, got.Message.Body), "body of message %s: %s", want.ID, difference(want.Body, got.Message.Body))
	require.True(t, want.Equal(got.Message), "message differs:\nwant %s\ngot  %s", describe(want), describe(got.Message))
}

func difference(want, got []byte) string {
	if len(want) != len(got) {
		return fmt.Sprintf("want %d bytes, got %d", len(want), len(got))
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Sprintf("byte %d: want %#x, got %#x", i, want[i], got[i])
		}
	}
	return "equal"
}

func describe(m txmsg.Message) string {
	body := m.Body
	if len(body) > 64 {
		body = body[:64]
	}
	return fmt.Sprintf("id %s topic %s key %q type %q sequence %d headers %v body %q", m.ID, m.Topic, m.Key, m.Type, m.Sequence, m.Headers, body)
}

// headerField is what an InvalidMessageError calls a header.
func headerField(name string) string { return fmt.Sprintf("Headers[%q]", name) }

func describeOutcome(id string, row, message bool, err error) string {
	return fmt.Sprintf("message %s: row %t, delivered %t, Transact returned %v", id, row, message, err)
}

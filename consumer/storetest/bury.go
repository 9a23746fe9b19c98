package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

func runBury[Tx any](t *testing.T, open func(t *testing.T) Harness[Tx]) {
	t.Run("keeps every field", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		for i, letter := range letters() {
			letter.Consumer = fmt.Sprintf("consumer-%d", i)
			require.NoError(t, h.Store.Bury(h.context(t), letter))
			requireLetter(t, h, letter)
		}
	})

	t.Run("the same again replaces it", func(t *testing.T) {
		t.Parallel()
		h, letter := open(t), letters()[0]
		require.NoError(t, h.Store.Bury(h.context(t), letter))
		require.NoError(t, h.Store.Bury(h.context(t), letter))
		requireLetter(t, h, letter)

		letter.Attempts, letter.Errors = letter.Attempts+3, []string{"a later error"}
		letter.Source.Offset++
		letter.Message.Body = []byte("another body")
		letter.Message.Headers = map[string]string{"other": "header"}
		require.NoError(t, h.Store.Bury(h.context(t), letter))
		requireLetter(t, h, letter)
	})

	t.Run("knows consumers and messages apart", func(t *testing.T) {
		t.Parallel()
		h, letter := open(t), letters()[0]
		require.NoError(t, h.Store.Bury(h.context(t), letter))
		other := letter
		other.Consumer = "mail"
		require.NoError(t, h.Store.Bury(h.context(t), other))
		requireLetter(t, h, letter)
		requireLetter(t, h, other)
		second := letter
		second.Message.ID = txmsg.NewID()
		require.NoError(t, h.Store.Bury(h.context(t), second))
		require.Len(t, h.Letters(t, letter.Consumer), 2)
	})

	t.Run("several at once", func(t *testing.T) {
		t.Parallel()
		h, letter := open(t), letters()[0]
		results := make(chan error, 8)
		for i := range cap(results) {
			mine := letter
			mine.Attempts = i + 1
			go func() { results <- h.Store.Bury(t.Context(), mine) }()
		}
		for range cap(results) {
			require.NoError(t, <-results)
		}
		require.Len(t, h.Letters(t, letter.Consumer), 1)
	})

	t.Run("does not mark the message", func(t *testing.T) {
		t.Parallel()
		h, letter := open(t), letters()[0]
		require.NoError(t, h.Store.Bury(h.context(t), letter))
		requireMark(t, h, letter.Consumer, letter.Message.ID, true)
	})

	t.Run("is an error when its context has ended", func(t *testing.T) {
		t.Parallel()
		h, letter := open(t), letters()[0]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, h.Store.Bury(ctx, letter))
		require.Empty(t, h.Letters(t, letter.Consumer))
	})
}

func letters() []consumer.DeadLetter {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return []consumer.DeadLetter{
		{
			Consumer: "payments",
			Message: txmsg.Message{
				ID: txmsg.NewID(), Topic: "orders.created", Key: "order-1", Type: "order.created", Sequence: math.MaxInt64,
				Body: every, Headers: map[string]string{"Trace-ID": "1", "trace-id": "2", "text": `"Größe", 注文's \u0000 \x00`},
			},
			Source:   txmsg.Source{Broker: "kafka", Topic: "orders.created", Partition: "3", Offset: math.MaxInt64},
			Attempts: 3,
			Errors:   []string{"first", "second\n\tgoroutine 1 [running]:\n\tmain.go:7", "dritter: größe 注文"},
		},
		{
			Message:  txmsg.Message{ID: txmsg.NewID(), Topic: "t", Body: []byte{}},
			Source:   txmsg.Source{Broker: "nats", Topic: "t"},
			Attempts: 0,
		},
		{
			Message: txmsg.Message{ID: "rocketmq/t/broker-a-0/7", Body: []byte(strings.Repeat("\x00\xff", 200_000))},
			Source:  txmsg.Source{Broker: "rocketmq", Topic: "t", Partition: "broker-a/0", Offset: 0},
			Errors:  []string{strings.Repeat("long ", 10_000), ""},
		},
		{
			// What a foreign producer may write and this library would not.
			Message: txmsg.Message{
				ID: "x", Topic: "a topic!", Key: strings.Repeat("k", 4000), Type: " ", Sequence: -1,
				Headers: map[string]string{"": "nameless", "empty": "", "_odd name\n": "\r\n\x02"},
			},
			Errors: []string{"malformed"},
		},
	}
}

func requireLetter[Tx any](t *testing.T, h Harness[Tx], want consumer.DeadLetter) {
	t.Helper()
	got := h.Letters(t, want.Consumer)
	require.Len(t, got, 1)
	require.True(t, want.Message.Equal(got[0].Message), "buried %+v, found %+v", want.Message, got[0].Message)
	require.Equal(t, want.Source, got[0].Source)
	require.Equal(t, want.Attempts, got[0].Attempts)
	require.Len(t, got[0].Errors, len(want.Errors))
	for i := range want.Errors {
		require.Equal(t, want.Errors[i], got[0].Errors[i])
	}
}

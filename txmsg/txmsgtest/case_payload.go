package txmsgtest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func payloadCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "every field and every byte of the body arrives", run: func(t *testing.T, w *world[Tx]) {
			msgs := payloads(w)
			w.commit(t, msgs...)
			w.requireDelivered(t, msgs...)
		}},
		{
			name:  "redelivery keeps ID, key, type, sequence, headers and every byte of the body",
			needs: func(h Hooks[Tx]) bool { return h.Redeliver != nil },
			run: func(t *testing.T, w *world[Tx]) {
				w.Redeliver(t)
				msgs := payloads(w)
				w.commit(t, msgs...)
				w.requireArrived(t, 2, msgs...)
			},
		},
		{name: "C44 NUL in JSON, as an escape and as literal text, arrives untouched", run: testNUL[Tx]},
		{name: "C47 a nil and an empty body arrive as empty, not nil", run: func(t *testing.T, w *world[Tx]) {
			none, empty, one := w.message(""), w.message(""), w.message("x")
			none.Body, empty.Body = nil, []byte{}
			w.commit(t, none, empty, one)
			w.requireDelivered(t, none, empty, one)
		}},
	}
}

func testNUL[Tx any](t *testing.T, w *world[Tx]) {
	escape, literal, raw := w.message(`{"a":"x\u0000y"}`), w.message(`\\u0000`), w.message("x\x00y")
	w.commit(t, escape, literal, raw)
	w.requireDelivered(t, escape, literal, raw)
}

// payloads are messages that use every field, with bodies that careless code damages.
func payloads[Tx any](w *world[Tx]) []txmsg.Message {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	random := make([]byte, 256<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	var msgs []txmsg.Message
	for i, body := range [][]byte{
		nil,
		{},
		{0},
		everyByte,
		random,
		bytes.Repeat([]byte("\r\n"), 100),
		[]byte(`{"a":"x\u0000y"}`),
		[]byte(`{"id":9007199254740993,"x":1.10}`),
		[]byte("{\"b\":1, \"a\":2,  \"b\":3}\n"),
		[]byte("\xef\xbb\xbfžluťoučký 🐎"),
		[]byte("\xff\xfe not UTF-8"),
	} {
		m := w.message("")
		m.Body = body
		m.Sequence = int64(i) + 1<<53
		m.Type = "pay.load"
		m.Headers = map[string]string{"content-type": "application/json", "tenant": "žluť 🐎"}
		msgs = append(msgs, m)
	}
	plain := txmsg.Message{ID: "an-id.of_another:kind/" + txmsg.NewID(), Topic: w.topic, Key: w.key, Body: []byte("fields left empty")}
	return append(msgs, plain)
}

func headerCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "header names keep their case and values every character", run: func(t *testing.T, w *world[Tx]) {
			m := w.message("headers")
			m.Key = "klíč/鍵 =;:%\"'\\{}"
			m.Type = "objednávka.vytvořená"
			m.Headers = map[string]string{
				"lower": "a", "UPPER": "B", "Mixed-Case_x.y": "c", "X-Request-Id": "d", "1st": "e",
				"unicode": "žluťoučký 🐎 日本語", "inner": "two  spaces", "syntax": `a=b; c="d", {e:'f'} \n %00`,
			}
			w.commit(t, m)
			w.requireDelivered(t, m)
		}},
		{name: "C48 headers that would forge a broker's properties are refused by name before anything is written", run: testForgedHeaders[Tx]},
	}
}

func testForgedHeaders[Tx any](t *testing.T, w *world[Tx]) {
	forged := map[string]string{
		"nul": "a\x00b", "soh": "a\x01b", "stx": "hello\x02TRAN_MSG\x01true", "crlf": "a\r\nNats-Msg-Id: 1", "lf": "a\nb", "del": "a\x7fb",
		"TRAN_MSG": "true", "PGROUP": "g", "KEYS": "k", "Nats-Msg-Id": "1", "nats-expected-stream": "s", "txmsg-id": "other", "TxMsg-Key": "k",
		"bad name": "x", "bad\x01name": "x", "": "x", "not-utf8": "\xff", "empty": "",
	}
	sound := w.message("sound")
	require.NoError(t, w.messenger.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		for name, value := range forged {
			m := w.message("ghost")
			m.Headers = map[string]string{name: value}
			err := out.Publish(ctx, w.message("ghost"), m)
			var invalid *txmsg.InvalidMessageError
			require.ErrorAs(t, err, &invalid, "header %q: %q", name, value)
			require.Equal(t, headerField(name), invalid.Field)
		}
		return w.write(ctx, tx, out, sound)
	}))
	w.requireDelivered(t, sound)
}

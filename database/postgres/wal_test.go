package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// A hand-written table of id, key, topic, body and time, with one index, is the measure for the log that a message of this size
// costs, written and delivered. A business row and its commit cost about as much again as is added to both.
func TestLogBytes(t *testing.T) {
	const (
		messages = 2000
		business = 277
	)
	body := []byte(strings.Repeat("x", 326))
	// ratio returns what a message costs that is written and kept, by a hand-written one that is written and deleted.
	ratio := func(t *testing.T, cfg postgres.Config) float64 {
		b := setupAt(t, services.Schema(t, services.Postgres(t)), cfg)
		b.exec(t, `CREATE TABLE hand (id bigserial PRIMARY KEY, msg_key text NOT NULL, topic text NOT NULL, payload bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
		hand := logged(t, b, `INSERT INTO hand (msg_key, topic, payload) SELECT 'order-' || lpad(i::text, 6, '0'), 'orders', $1 FROM generate_series(1, $2::int) i`, body, messages)
		hand += logged(t, b, `DELETE FROM hand`)

		var entries []localtable.Entry
		for i := range messages {
			entries = append(entries, localtable.Entry{Destination: "default", Message: txmsg.Message{
				ID: txmsg.NewID(), Topic: "orders", Key: fmt.Sprintf("order-%06d", i), Body: body,
			}})
		}
		write := b.Insert(entries)[0]
		ours := logged(t, b, write.SQL, write.Args...)
		ours += logged(t, b, postgres.ArchiveSQL, delivering(t, b, messages)...)
		require.Equal(t, messages, b.count(t, "txmsg_delivered"))
		t.Logf("bytes of log for a message: hand-written %.0f, ours %.0f", hand/messages, ours/messages)
		return (ours/messages + business) / (hand/messages + business)
	}

	t.Run("of messages that are kept", func(t *testing.T) {
		t.Parallel()
		require.Less(t, ratio(t, postgres.Config{}), 1.2)
	})

	t.Run("is more where the archive is logged", func(t *testing.T) {
		t.Parallel()
		require.Greater(t, ratio(t, postgres.Config{LoggedArchive: true}), 1.4)
	})
}

// logged runs sql and returns the bytes of log that it wrote.
func logged(t *testing.T, b bundle, sql string, args ...any) float64 {
	t.Helper()
	var text string
	require.NoError(t, b.pool.QueryRow(t.Context(), `EXPLAIN (ANALYZE, WAL, FORMAT JSON) `+sql, args...).Scan(&text))
	var plans []struct {
		Plan struct {
			Bytes float64 `json:"WAL Bytes"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &plans))
	return plans[0].Plan.Bytes
}

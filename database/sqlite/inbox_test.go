package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/database/sqlite"
)

func TestConsumerStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness[*sql.Tx] {
		db := setup(t)
		return storetest.Harness[*sql.Tx]{
			Store: db, Database: db, SingleWriter: true,
			Letters: func(t testing.TB, consumer string) []consumer.DeadLetter { return letters(t, db, consumer) },
			Age: func(t testing.TB, consumer, messageID string, by time.Duration) {
				_, err := db.Pool().Exec(`UPDATE txmsg_inbox SET seen_at = seen_at - ? WHERE consumer = ? AND message_id = ?`,
					by.Milliseconds(), consumer, messageID)
				require.NoError(t, err)
			},
		}
	})
}

func letters(t testing.TB, db *sqlite.DB, name string) []consumer.DeadLetter {
	t.Helper()
	rows, err := db.Pool().Query(`SELECT message_id, topic, key, type, sequence, headers, body, broker, source_topic,
		partition, "offset", attempts, errors FROM txmsg_dead_letter WHERE consumer = ?`, name)
	require.NoError(t, err)
	defer rows.Close()
	var found []consumer.DeadLetter
	for rows.Next() {
		letter := consumer.DeadLetter{Consumer: name}
		m, source := &letter.Message, &letter.Source
		var headers sql.NullString
		var history string
		require.NoError(t, rows.Scan(&m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence, &headers, &m.Body, &source.Broker, &source.Topic,
			&source.Partition, &source.Offset, &letter.Attempts, &history))
		if headers.Valid {
			require.NoError(t, json.Unmarshal([]byte(headers.String), &m.Headers))
		}
		require.NoError(t, json.Unmarshal([]byte(history), &letter.Errors))
		found = append(found, letter)
	}
	require.NoError(t, rows.Err())
	return found
}

package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestLocaltableStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness[*sql.Tx] {
		db := setup(t)
		exec := func(t testing.TB, query string, args ...any) {
			t.Helper()
			result, err := db.Pool().Exec(query, args...)
			require.NoError(t, err)
			changed, err := result.RowsAffected()
			require.NoError(t, err)
			require.NotZero(t, changed, "nothing was moved")
		}
		return storetest.Harness[*sql.Tx]{
			Store: db, Operator: db, Lanes: 1, SingleWriter: true, Mute: true,
			Age: func(t testing.TB, messageID string, by time.Duration) {
				exec(t, `UPDATE txmsg_message SET due_at = due_at - ?1, created_at = created_at - ?1 WHERE id = ?2`, by.Milliseconds(), messageID)
			},
			AgeDelivered: func(t testing.TB, by time.Duration) {
				_, err := db.Pool().Exec(`UPDATE txmsg_delivered SET delivered_at = delivered_at - ?`, by.Milliseconds())
				require.NoError(t, err)
			},
			Expire: func(t testing.TB, owner string) {
				exec(t, `UPDATE txmsg_instance SET expires_at = 0 WHERE owner = ?`, owner)
			},
			Errors: func(t testing.TB, messageID string) []string {
				var text string
				require.NoError(t, db.Pool().QueryRow(`SELECT errors FROM txmsg_message WHERE id = ?`, messageID).Scan(&text))
				var entries []struct {
					At           int64
					Class, Error string
				}
				require.NoError(t, json.Unmarshal([]byte(text), &entries))
				var errors []string
				for _, entry := range entries {
					require.WithinDuration(t, time.Now(), time.UnixMilli(entry.At), time.Minute)
					require.NotEmpty(t, entry.Class)
					errors = append(errors, entry.Error)
				}
				return errors
			},
		}
	})
}

// The schema is open to programs in any language.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	db := setup(t)
	for range 2 {
		_, err := db.Pool().Exec(`INSERT INTO txmsg_message (destination, topic, body) VALUES ('d', 'orders', x'')`)
		require.NoError(t, err)
	}
	_, err := db.Pool().Exec(`INSERT INTO txmsg_message (id, destination, topic, key, headers, body) VALUES ('x', 'd', 'orders', 'k', '{"a":"1","b":2,"c":null,"d":{"e":[]}}', x'00ff')`)
	require.NoError(t, err)
	lease, err := db.Lease(t.Context(), "me", time.Minute)
	require.NoError(t, err)
	rows, err := db.Read(t.Context(), "d", lease.Lanes, 10)
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.NotEqual(t, rows[0].Message.ID, rows[1].Message.ID)
	for _, row := range rows[:2] {
		id, err := uuid.Parse(row.Message.ID)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(7), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		seconds, nanos := id.Time().UnixTime()
		require.WithinDuration(t, row.Created, time.Unix(seconds, nanos), time.Millisecond)
		require.WithinDuration(t, time.Now(), row.Created, time.Minute)
		require.Empty(t, row.Message.Body)
	}
	require.Equal(t, txmsg.Message{ID: "x", Topic: "orders", Key: "k", Headers: map[string]string{"a": "1", "b": "2", "c": "", "d": `{"e":[]}`}, Body: []byte{0, 255}}, rows[2].Message)
	for _, bad := range []string{`headers = 'no JSON'`, `headers = '[]'`, `headers = '{a:1}'`, `errors = '{}'`, `state = 'waiting', delayed = 1`, `state = 'waiting', due_at = 1`, `holds = 1`, `state = 'sent'`, `body = 'text'`, `topic = NULL`} {
		_, err := db.Pool().Exec(`UPDATE txmsg_message SET ` + bad)
		require.Error(t, err, bad)
	}
}

// A sequence number that came again would make an old settlement hit a new row.
func TestSeqIsNeverUsedTwice(t *testing.T) {
	t.Parallel()
	db := setup(t)
	seen := map[int64]bool{}
	lease, err := db.Lease(t.Context(), "me", time.Minute)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, begin(t, db).Commit(t.Context(), message(db, "m")...))
		rows, err := db.Read(t.Context(), "test", lease.Lanes, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		require.False(t, seen[rows[0].Seq])
		seen[rows[0].Seq] = true
		changed, err := db.Settle(t.Context(), localtable.Settlement{
			Owner: "me", Lanes: lease.Lanes, Results: []localtable.Result{{Row: rows[0], Fate: localtable.Delivered}},
		})
		require.NoError(t, err)
		require.Equal(t, 1, changed)
	}
}

// TestPlans holds the cost of what runs all the time: no statement walks a table.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := setup(t)
	statements := db.Statements()
	statements["find all"] = sqlite.FindStatement()
	statements["find dead"] = sqlite.FindStatement(localtable.StateDead)
	statements["find what may be retried"] = sqlite.FindStatement(localtable.StateDead, localtable.StateRetry)
	for name, query := range statements {
		t.Run(name, func(t *testing.T) {
			rows, err := db.Pool().Query(`EXPLAIN QUERY PLAN `+query, make([]any, 8)...)
			require.NoError(t, err)
			defer rows.Close()
			var steps []string
			for rows.Next() {
				var id, parent, unused int
				var step string
				require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
				steps = append(steps, step)
			}
			require.NoError(t, rows.Err())
			plan := strings.Join(steps, "\n")
			t.Log("\n" + plan)
			for _, step := range steps {
				for _, table := range []string{"txmsg_message", "txmsg_delivered", "txmsg_inbox", "m", "h", "p"} {
					require.NotEqual(t, "SCAN "+table, step, plan)
					require.NotContains(t, step, "SEARCH "+table+" USING INTEGER PRIMARY KEY (rowid>?)", plan)
				}
			}
		})
	}
}

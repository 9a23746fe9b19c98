package sqlite_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
)

// kill writes a message, lets it die and hold its key, and returns it.
func kill(t *testing.T, db *sqlite.DB, id string) localtable.Held {
	t.Helper()
	require.NoError(t, begin(t, db).Commit(t.Context(), message(db, id)...))
	lease, err := db.Lease(t.Context(), "me", time.Minute)
	require.NoError(t, err)
	rows, err := db.Read(t.Context(), "test", lease.Lanes, 10)
	require.NoError(t, err)
	changed, err := db.Settle(t.Context(), localtable.Settlement{
		Owner: "me", Lanes: lease.Lanes, DeadHolds: true, Errors: 5,
		Results: []localtable.Result{{Row: rows[0], Fate: localtable.Dead, Error: "no", Class: "refused"}},
	})
	require.NoError(t, err)
	require.Equal(t, 1, changed)
	return held(t, db)
}

// held returns the only row that is held.
func held(t *testing.T, db *sqlite.DB) localtable.Held {
	t.Helper()
	rows, err := db.FindHeld(t.Context(), localtable.Filter{}, 0, 10, true)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[0]
}

func TestDecideAndAuditAreOne(t *testing.T) {
	t.Parallel()
	for _, verb := range []localtable.Verb{localtable.VerbRetry, localtable.VerbSkip, localtable.VerbRelease} {
		for table, trigger := range map[string]string{
			"audit":   `CREATE TRIGGER refuse AFTER INSERT ON txmsg_audit BEGIN SELECT RAISE(ABORT, 'no'); END`,
			"message": `CREATE TRIGGER refuse AFTER %s ON txmsg_message BEGIN SELECT RAISE(ABORT, 'no'); END`,
		} {
			t.Run(fmt.Sprintf("%s changes nothing when the %s cannot be written", verb, table), func(t *testing.T) {
				t.Parallel()
				db := setup(t)
				before := kill(t, db, "a")
				act := "UPDATE"
				if verb == localtable.VerbSkip {
					act = "DELETE"
				}
				_, err := db.Pool().Exec(strings.Replace(trigger, "%s", act, 1))
				require.NoError(t, err)
				_, err = db.Decide(t.Context(), localtable.Decision{
					Verb: verb, Reason: localtable.Reason{Who: "ann", Why: "why"}, Refs: []localtable.Ref{before.Ref()}, Unpark: 1,
				})
				require.Error(t, err)
				require.Equal(t, before, held(t, db))
				require.Zero(t, count(t, db, "txmsg_audit"))
			})
		}
	}
}

func TestHistoryOfAnotherProgram(t *testing.T) {
	t.Parallel()
	db := setup(t)
	_, err := db.Pool().Exec(`INSERT INTO txmsg_message (topic, body, state, errors) VALUES ('orders', x'', 'dead', '["odd"]')`)
	require.NoError(t, err)
	require.Equal(t, []localtable.Failure{{Error: `["odd"]`}}, held(t, db).Errors)
}

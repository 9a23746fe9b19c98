package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// A head that dies and holds nothing lets the next row go, and fail; a person then brings the head back, and it is refused
// again in one batch with that row.
func TestRowThatFailedItselfIsParkedAndGoesOn(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Migrate(t.Context()))
	lease, err := db.Lease(t.Context(), "o", time.Minute)
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		tx, err := db.Begin(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(context.Background(), db.Insert([]localtable.Entry{
			{Destination: "d", Message: txmsg.Message{ID: id, Topic: "t", Key: "k"}},
		})...))
	}
	read := func() []localtable.Row {
		rows, err := db.Read(t.Context(), "d", lease.Lanes, 10)
		require.NoError(t, err)
		return rows
	}
	settle := func(results ...localtable.Result) {
		changed, err := db.Settle(t.Context(), localtable.Settlement{Owner: "o", Lanes: lease.Lanes, Results: results, Unpark: 100, Errors: 3})
		require.NoError(t, err)
		require.Equal(t, len(results), changed)
	}
	rows := read()
	settle(localtable.Result{Row: rows[0], Fate: localtable.Dead}, localtable.Result{Row: rows[1], Fate: localtable.Retry})
	_, err = db.Pool().ExecContext(t.Context(), "UPDATE txmsg_message SET state = 'retry', holds = 1, due_at = 1, revision = revision + 1 WHERE state = 'dead'")
	require.NoError(t, err)

	rows = read()
	require.Len(t, rows, 2)
	settle(localtable.Result{Row: rows[0], Fate: localtable.Retry}, localtable.Result{Row: rows[1], Fate: localtable.Parked})
	rows = read()
	require.Len(t, rows, 1)
	settle(localtable.Result{Row: rows[0], Fate: localtable.Delivered})
	rows = read()
	require.Len(t, rows, 1)
	require.Equal(t, "b", rows[0].Message.ID)
}

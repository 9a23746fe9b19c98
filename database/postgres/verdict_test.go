package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func TestVerdict(t *testing.T) {
	committed, aborted, running := "committed", "aborted", "in progress"
	here := server{system: "1", incarnation: "a"}
	crashed, elsewhere, nameless := server{system: "1", incarnation: "b"}, server{system: "2", incarnation: "a"}, server{system: "1"}
	for _, test := range []struct {
		name      string
		then, now server
		timeline  string
		status    *string
		want      txmsg.Outcome
		final     bool
	}{
		{"committed", here, here, "1", &committed, txmsg.Committed, true},
		{"aborted", here, here, "1", &aborted, txmsg.RolledBack, true},
		{"still in progress", here, here, "1", &running, txmsg.Unknown, false},
		{"too old to tell", here, here, "1", nil, txmsg.Unknown, true},
		{"another timeline", here, here, "2", &committed, txmsg.Unknown, true},
		{"another timeline, aborted", here, here, "2", &aborted, txmsg.Unknown, true},
		{"another cluster", here, elsewhere, "1", &aborted, txmsg.Unknown, true},
		{"committed, but perhaps by another after a crash", here, crashed, "1", &committed, txmsg.Unknown, true},
		{"aborted before or by a crash", here, crashed, "1", &aborted, txmsg.RolledBack, true},
		{"a server that does not tell its crashes", nameless, nameless, "1", &committed, txmsg.Unknown, true},
	} {
		outcome, final := verdict(transactionID{xid: "7", timeline: "1"}, test.then, test.now, test.timeline, test.status)
		require.Equal(t, test.want, outcome, test.name)
		require.Equal(t, test.final, final, test.name)
	}
}

func TestCommitError(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		unclear bool
	}{
		{"ERROR", &pgconn.PgError{SeverityUnlocalized: "ERROR", Severity: "FEHLER", Code: "40001"}, false},
		{"ERROR of an old server", &pgconn.PgError{Severity: "ERROR", Code: "23505"}, false},
		{"FATAL", &pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, true},
		{"PANIC", &pgconn.PgError{SeverityUnlocalized: "PANIC", Code: "XX000"}, true},
		{"a pooler that lost the server", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "08006"}, true},
		{"anything else", errors.New("unexpected EOF"), true},
	} {
		err := commitError(fmt.Errorf("wrapped: %w", test.err))
		require.Equal(t, test.unclear, errors.Is(err, txmsg.ErrOutcomeUnknown), test.name)
		require.ErrorIs(t, err, test.err, test.name)
	}
	require.True(t, (&DB{}).Conflict(commitError(&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40001"})))
}

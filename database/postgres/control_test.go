package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTransactionControl(t *testing.T) {
	for _, test := range []struct{ sql, want string }{
		{"", ""},
		{"SELECT 1", ""},
		{"COMMIT", "COMMIT"},
		{"commit;", "COMMIT"},
		{" \n\t; End", "END"},
		{"ROLLBACK TO SAVEPOINT s", "ROLLBACK"},
		{"abort", "ABORT"},
		{"begin isolation level serializable", "BEGIN"},
		{"START TRANSACTION", "START"},
		{"savepoint s", "SAVEPOINT"},
		{"release s", "RELEASE"},
		{"PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"},
		{"prepare -- not what it seems\n transaction 'x'", "PREPARE TRANSACTION"},
		{"PREPARE q AS SELECT 1", ""},
		{"-- why\nCOMMIT", "COMMIT"},
		{"/* a /* nested */ one */ COMMIT", "COMMIT"},
		{"-- COMMIT", ""},
		{"/* COMMIT", ""},
		{"commitment", ""},
		{"SELECT 1; COMMIT", "COMMIT"},
		{"SELECT ';'; COMMIT; BEGIN", "COMMIT"},
		{"SELECT '; COMMIT'", ""},
		{"SELECT 'it''s; COMMIT'; SELECT 2", ""},
		{`SELECT E'\'; COMMIT'; SELECT 2`, ""},
		{`SELECT E'\''; COMMIT`, "COMMIT"},
		{`SELECT '\'; COMMIT`, "COMMIT"},
		{`SELECT "; COMMIT" FROM t; SELECT 2`, ""},
		{"SELECT $$; COMMIT$$; SELECT 2", ""},
		{"DO $body$ BEGIN PERFORM 1; END $body$", ""},
		{"DO $body$ BEGIN PERFORM 1; END $body$; COMMIT", "COMMIT"},
		{"SELECT $1; COMMIT", "COMMIT"},
		{"SELECT $1, $2; SELECT 3", ""},
		{"SELECT a$b$ FROM t; COMMIT", "COMMIT"},
		{"SELECT 1 -- ; COMMIT", ""},
		{"SELECT 1 /* ; COMMIT */; SELECT 2", ""},
		{"SELECT 4 - 2 / 1; COMMIT", "COMMIT"},
		{"SELECT $", ""},
		{"SELECT 'open; COMMIT", ""},
	} {
		require.Equal(t, test.want, transactionControl(test.sql), "%q", test.sql)
	}
}

// What is refused too little is found by the server; here it must end, and without a panic.
func FuzzTransactionControl(f *testing.F) {
	f.Add("SELECT 'a' || $x$ b $x$ || \"c\"; /* d */ -- e\n COMMIT")
	f.Fuzz(func(t *testing.T, sql string) {
		before := transactionControl(sql)
		require.Equal(t, before, transactionControl(" ;"+sql))
	})
}

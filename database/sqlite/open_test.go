package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
)

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("names every problem of its configuration", func(t *testing.T) {
		t.Parallel()
		_, err := sqlite.Open(t.Context(), "x.db", sqlite.Config{BusyTimeout: -1, Connections: -3, Pragmas: []string{"a; b", "Synchronous(OFF)", "foreign_keys(ON)"}})
		require.ErrorContains(t, err, "Config.BusyTimeout must be at least 1ms, got -1ns")
		require.ErrorContains(t, err, "Config.Connections must be at least 1, got -3")
		require.ErrorContains(t, err, `Config.Pragmas[0] must be a name with a value in parentheses, got "a; b"`)
		require.ErrorContains(t, err, `Config.Pragmas[1] must be none of journal_mode, synchronous, busy_timeout, locking_mode, query_only, got "Synchronous(OFF)"`)
		require.NotContains(t, err.Error(), "Pragmas[2]")
	})

	t.Run("refuses what does not last", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"", ":memory:", "file::memory:"} {
			_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			require.ErrorContains(t, err, "path must name a file")
		}
	})

	t.Run("fails where there is no directory, and for what is no database", func(t *testing.T) {
		t.Parallel()
		_, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "nowhere", "x.db"), sqlite.Config{})
		require.Error(t, err)
		path := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(path, make([]byte, 8192), 0o600))
		require.NoError(t, os.WriteFile(path, []byte("this is no database, but a text of some length: it goes on and on and on and on and on"), 0o600))
		_, err = sqlite.Open(t.Context(), path, sqlite.Config{})
		require.Error(t, err)
	})

	t.Run("takes a path as it is", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "a?b=c&d#e%20 ü.db")
		db := open(t, path, sqlite.Config{})
		require.NoError(t, db.Migrate(t.Context()))
		require.FileExists(t, path)
	})

	t.Run("sets up every connection", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		db := open(t, path, sqlite.Config{
			BusyTimeout: 7 * time.Second,
			Pragmas:     []string{"foreign_keys(ON)", "cache_size(-4000)"},
		})
		check := func(row func(string, ...any) *sql.Row) {
			for pragma, want := range map[string]string{
				"journal_mode": "wal", "synchronous": "2", "busy_timeout": "7000", "foreign_keys": "1", "cache_size": "-4000",
			} {
				var got string
				require.NoError(t, row("PRAGMA "+pragma).Scan(&got))
				require.Equal(t, want, got, pragma)
			}
		}
		check(db.Pool().QueryRow)
		check(begin(t, db).Tx().QueryRow)
	})
}

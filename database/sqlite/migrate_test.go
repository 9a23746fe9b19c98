//go:build unix

package sqlite_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
)

func migrate(ctx context.Context, path string) error {
	db, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Migrate(ctx)
}

func TestMigrate(t *testing.T) {
	t.Parallel()

	t.Run("eight processes and eight of one at once", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "new.db")
		results := make(chan error, 16)
		for range 8 {
			cmd := program(t, "migrate", path)
			go func() {
				output, err := cmd.CombinedOutput()
				if err != nil {
					err = &exec.Error{Name: string(output), Err: err}
				}
				results <- err
			}()
			go func() { results <- migrate(context.Background(), path) }()
		}
		for range cap(results) {
			require.NoError(t, <-results)
		}
		db := open(t, path, sqlite.Config{})
		require.Equal(t, 3, count(t, db, "txmsg_migration"), "version 0 and each of ours once")
		require.NoError(t, begin(t, db).Commit(t.Context(), message(db, "m")...))
	})

	t.Run("again changes nothing", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		require.NoError(t, begin(t, db).Commit(t.Context(), message(db, "m")...))
		require.NoError(t, db.Migrate(t.Context()))
		require.Equal(t, 1, count(t, db, "txmsg_message"))
	})

	t.Run("that fails leaves nothing", func(t *testing.T) {
		t.Parallel()
		db := open(t, filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
		_, err := db.Pool().Exec(`CREATE TABLE txmsg_inbox (mine TEXT)`) // in the way of the second version
		require.NoError(t, err)
		require.Error(t, db.Migrate(t.Context()))
		require.Equal(t, 1, count(t, db, "sqlite_schema"))

		_, err = db.Pool().Exec(`DROP TABLE txmsg_inbox`)
		require.NoError(t, err)
		require.NoError(t, db.Migrate(t.Context()), "once the way is free")
	})

	t.Run("leaves a newer file alone", func(t *testing.T) {
		t.Parallel()
		db := setup(t)
		_, err := db.Pool().Exec(`INSERT INTO txmsg_migration (version_id, is_applied) VALUES (9999, 1)`)
		require.NoError(t, err)
		require.NoError(t, db.Migrate(t.Context()))
	})

	t.Run("waits for a transaction, as long as its context", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		db, other := open(t, path, sqlite.Config{BusyTimeout: 1e6}), open(t, path, sqlite.Config{})
		held := begin(t, other)
		ctx, cancel := context.WithTimeout(t.Context(), 50e6)
		defer cancel()
		require.Error(t, db.Migrate(ctx))
		require.NoError(t, held.Rollback(t.Context()))
		require.NoError(t, db.Migrate(t.Context()))
	})
}

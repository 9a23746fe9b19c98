//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/txmsg"
)

// loseDisk commits an order that the log has no room for: the process may not write files larger than the log is. It
// is an error if the answer is anything but unknown, or if the next transaction does not work.
func loseDisk(ctx context.Context, path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	db, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	place := func(id string) error {
		return transact(ctx, db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			if _, err := tx.ExecContext(ctx, insertOrder, id); err != nil {
				return err
			}
			return out.Publish(ctx, txmsg.Message{ID: id, Topic: "orders", Body: make([]byte, 100_000)})
		})
	}
	if err := place("before"); err != nil {
		return err
	}
	log, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	lowered := limit
	lowered.Cur = uint64(log.Size()) + 50_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &lowered); err != nil {
		return err
	}
	lost := place("lost")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var unknown *txmsg.OutcomeUnknownError
	if !errors.As(lost, &unknown) || len(unknown.MessageIDs) != 1 || unknown.MessageIDs[0] != "lost" || errors.Is(lost, txmsg.ErrRolledBack) {
		return fmt.Errorf("the commit that the disk refused answered: %v", lost)
	}
	return place("after")
}

func TestUnclearCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, sqlite.Config{})
	require.NoError(t, db.Migrate(t.Context()))
	_, err := db.Pool().Exec(`CREATE TABLE orders (id TEXT PRIMARY KEY)`)
	require.NoError(t, err)
	output, err := program(t, "lose disk", path).CombinedOutput()
	require.NoError(t, err, string(output))
	requireSame(t, db, "before", "after")
}

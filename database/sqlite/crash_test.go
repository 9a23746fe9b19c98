//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/txmsg"
)

// work writes orders with a message each from four goroutines until it is killed, every third transaction rolled
// back, and says on standard output what is committed.
func work(ctx context.Context, path string) error {
	db, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	var mu sync.Mutex // of standard output
	for worker := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), worker, i)
				err := transact(ctx, db, func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
					if _, err := tx.ExecContext(ctx, insertOrder, id); err != nil {
						return err
					}
					if err := out.Publish(ctx, txmsg.Message{ID: id, Topic: "orders", Key: id, Body: make([]byte, 3000)}); err != nil {
						return err
					}
					if i%3 == 2 {
						return errUndo
					}
					return nil
				})
				if i%3 == 2 {
					continue
				}
				if err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(id)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

func TestKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, sqlite.Config{})
	require.NoError(t, db.Migrate(t.Context()))
	_, err := db.Pool().Exec(`CREATE TABLE orders (id TEXT PRIMARY KEY)`)
	require.NoError(t, err)
	require.NoError(t, db.Close()) // the killed process is the last: its log is recovered by the next

	said := map[string]bool{}
	for round := range 5 {
		for id := range killed(t, path, 20*(round+1)) {
			said[id] = true
		}
		requireAgree(t, path, said)
	}
	require.Greater(t, len(said), 100)
}

// killed runs two of the program at once, kills each when it has committed some transactions, and returns what they
// had told.
func killed(t *testing.T, path string, commits int) map[string]bool {
	t.Helper()
	type result struct {
		said map[string]bool
		err  error
	}
	results := make(chan result, 2)
	for range cap(results) {
		cmd := program(t, "work", path)
		cmd.Stderr = os.Stderr
		go func() {
			said, err := killedOne(cmd, commits)
			results <- result{said, err}
		}()
	}
	all := map[string]bool{}
	for range cap(results) {
		got := <-results
		require.NoError(t, got.err)
		maps.Copy(all, got.said)
	}
	require.GreaterOrEqual(t, len(all), 2*commits)
	return all
}

func killedOne(cmd *exec.Cmd, commits int) (map[string]bool, error) {
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	said := map[string]bool{}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		said[lines.Text()] = true
		if len(said) == commits {
			err = cmd.Process.Kill()
		}
	}
	var killed *exec.ExitError
	if waited := cmd.Wait(); !errors.As(waited, &killed) || killed.Exited() {
		return nil, fmt.Errorf("the program was not killed: %v", waited)
	}
	return said, err
}

// requireAgree says that the orders of the file are those of its messages, and that no commit that was told is missing.
func requireAgree(t *testing.T, path string, said map[string]bool) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var integrity string
	require.NoError(t, db.Pool().QueryRow(`PRAGMA integrity_check`).Scan(&integrity))
	require.Equal(t, "ok", integrity)
	rows, err := db.Pool().Query(`SELECT o.id, m.id FROM orders o FULL JOIN txmsg_message m ON m.id = o.id`)
	require.NoError(t, err)
	defer rows.Close()
	found := map[string]bool{}
	for rows.Next() {
		var order, message sql.NullString
		require.NoError(t, rows.Scan(&order, &message))
		require.Equal(t, order, message, "an order and its message")
		require.False(t, found[order.String], "two messages of one order")
		found[order.String] = true
	}
	require.NoError(t, rows.Err())
	for id := range said {
		require.True(t, found[id], "the commit of %s was told", id)
	}
	for id := range found {
		var pid, worker, i int
		_, err := fmt.Sscanf(id, "%d-%d-%d", &pid, &worker, &i)
		require.NoError(t, err)
		require.NotEqual(t, 2, i%3, "%s was rolled back", id)
	}
}

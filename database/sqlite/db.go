package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var (
	_ txmsg.Database[*sql.Tx]   = (*DB)(nil)
	_ localtable.Store[*sql.Tx] = (*DB)(nil)
	_ consumer.Store[*sql.Tx]   = (*DB)(nil)
)

// openTimeout bounds Open where its context does not.
const openTimeout = 10 * time.Second

// openPause is between two tries to open a file that another process is just turning into a WAL database, where
// SQLite does not wait by itself.
const openPause = 20 * time.Millisecond

// DB is one SQLite file. Its methods may be called by many goroutines, and several processes may have the file open.
type DB struct {
	cfg     Config
	pool    *sql.DB       // readers, and the service
	writer  writer        // transactions
	relaxed writer        // what a power cut may undo: see [DB.write]
	gate    chan struct{} // holds a token while a writer works; waiting senders are served in order
	live    sync.Map      // *sql.Tx → *transaction
}

// writer is one connection that writes.
type writer struct {
	db    *sql.DB
	guard guard
}

// Open opens the file at path and creates it if it is not there; it makes no tables, see [DB.Migrate]. It waits for
// other processes that are opening the file for at most 10 s.
func Open(ctx context.Context, path string, cfg Config) (*DB, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if path == "" || strings.Contains(path, ":memory:") {
		return nil, fmt.Errorf("sqlite: path must name a file, got %q: messages in memory do not survive the process", path)
	}
	db := &DB{cfg: cfg, gate: make(chan struct{}, 1)}
	for _, pool := range []struct {
		db          **sql.DB
		conns       int
		synchronous string
	}{{&db.pool, cfg.Connections, "FULL"}, {&db.writer.db, 1, "FULL"}, {&db.relaxed.db, 1, "NORMAL"}} {
		opened, err := sql.Open("sqlite", dsn(path, cfg, pool.synchronous))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, err), db.Close())
		}
		opened.SetMaxOpenConns(pool.conns)
		opened.SetMaxIdleConns(pool.conns)
		*pool.db = opened
	}
	if err := db.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, err), db.Close())
	}
	return db, nil
}

// Pool returns the connections of the service's own reads and of writes that publish nothing. Its transactions are
// BEGIN IMMEDIATE unless they are read-only.
func (db *DB) Pool() *sql.DB { return db.pool }

// Close frees the connections. Transactions under way must have ended.
func (db *DB) Close() error {
	var problems []error
	for _, pool := range []*sql.DB{db.writer.db, db.relaxed.db, db.pool} {
		if pool != nil {
			problems = append(problems, pool.Close())
		}
	}
	return errors.Join(problems...)
}

// await opens the writer's connection and looks at what the file has made of its settings.
func (db *DB) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	tick := time.NewTicker(openPause)
	defer tick.Stop()
	for {
		err := db.verify(ctx)
		if err == nil || !db.Conflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// verify reads the settings back: a file system without shared memory silently keeps another journal.
func (db *DB) verify(ctx context.Context) error {
	var journal string
	var synchronous int
	err := db.writer.db.QueryRowContext(ctx, `SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous`).
		Scan(&journal, &synchronous)
	if err != nil {
		return err
	}
	if journal != "wal" {
		return fmt.Errorf("journal_mode must be wal, the file has %q", journal)
	}
	if synchronous < 2 {
		return fmt.Errorf("synchronous must be FULL, the connection has %d", synchronous)
	}
	return nil
}

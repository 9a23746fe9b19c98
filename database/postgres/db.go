package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/txmsg"
)

// DB is a PostgreSQL database with the tables of the library. Its methods may be called by many goroutines.
type DB struct {
	pool   *pgxpool.Pool
	schema string
	logger *slog.Logger
	begin  pgx.TxOptions
	idle   string // value of idle_in_transaction_session_timeout, empty to leave the server's
	logged bool   // what is delivered is logged too

	horizons sync.Map // *horizon by destination

	sender *sender
	listen *pgx.ConnConfig // nil to listen where the pool leads
	pulse  time.Duration   // how often a connection that hears nothing is asked whether it lives
}

var _ txmsg.Database[pgx.Tx] = (*DB)(nil)

// Config of a DB; the zero value works.
type Config struct {
	// Schema that holds the library's tables. Statements name it, so that a callback may set a search_path of its own.
	// Defaults to none: the tables are found by the connection's search_path.
	Schema string `yaml:"schema"`
	// Isolation of transactions: "read committed", "repeatable read" or "serializable".
	// Defaults to the server's default_transaction_isolation.
	Isolation pgx.TxIsoLevel `yaml:"isolation"`
	// IdleTimeout is how long a transaction may wait for its next statement before the server ends it, so that a
	// process that is gone or frozen does not hold its locks. Negative leaves the server's own setting.
	// Defaults to 2 min.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// LoggedArchive writes delivered messages that are kept to the server's log too, which nearly doubles what a message
	// costs there. Without it a crash of the server empties their history, and a standby has none; what is not delivered is
	// always logged. It counts for the days whose partition is not made yet: all of a new database, else from the day after
	// tomorrow on. Defaults to false.
	LoggedArchive bool `yaml:"logged_archive"`
	// ListenURL is a DSN that leads to the database past a pooler in transaction mode, for the one connection that listens
	// for commits of other processes; the pool's hooks are applied to it. Defaults to where the pool leads.
	ListenURL string `yaml:"listen_url"`
	// Logger gets what no caller is told. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

func (c *Config) setDefaults() {
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 2 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	var problems []error
	if len(c.Schema) > 63 || strings.ContainsAny(c.Schema, "\x00'$") || strings.HasPrefix(c.Schema, "pg_") {
		problems = append(problems, fmt.Errorf("postgres: Config.Schema must be a name of at most 63 bytes without ' and $ that does not begin with pg_, got %q", c.Schema))
	}
	levels := []pgx.TxIsoLevel{"", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	if !slices.Contains(levels, c.Isolation) {
		problems = append(problems, fmt.Errorf("postgres: Config.Isolation must be one of %q, got %q", levels[1:], c.Isolation))
	}
	if c.IdleTimeout > 0 && c.IdleTimeout < time.Millisecond {
		problems = append(problems, fmt.Errorf("postgres: Config.IdleTimeout must be at least 1ms, got %s", c.IdleTimeout))
	}
	if c.ListenURL != "" && c.listenAt() == nil {
		problems = append(problems, errors.New("postgres: Config.ListenURL must be a PostgreSQL DSN; it is not shown, for the password in it"))
	}
	return errors.Join(problems...)
}

// listenAt returns nil when there is none, or none that is valid.
func (c *Config) listenAt() *pgx.ConnConfig {
	if c.ListenURL == "" {
		return nil
	}
	cfg, err := pgxpool.ParseConfig(c.ListenURL) // knows the pool's settings too, which a DSN may have
	if err != nil {
		return nil
	}
	return cfg.ConnConfig
}

// New returns a DB that uses pool, which stays the caller's to close. It connects to nothing.
func New(pool *pgxpool.Pool, cfg Config) (*DB, error) {
	if pool == nil {
		return nil, errors.New("postgres: pool must not be nil")
	}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	db := &DB{
		pool: pool, schema: cfg.Schema, logger: cfg.Logger, begin: pgx.TxOptions{IsoLevel: cfg.Isolation}, logged: cfg.LoggedArchive,
		sender: newSender(), listen: cfg.listenAt(), pulse: pulse,
	}
	if cfg.IdleTimeout > 0 {
		db.idle = fmt.Sprint(cfg.IdleTimeout.Milliseconds())
	}
	return db, nil
}

// Begin implements [txmsg.Database]. It takes a connection of the pool; BEGIN travels with the first statement.
func (db *DB) Begin(ctx context.Context, savepoint func() (rollback func())) (txmsg.Transaction[pgx.Tx], error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: acquire connection: %w", err)
	}
	server, err := serverOf(ctx, conn.Conn())
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("postgres: begin: %w", err)
	}
	t := &transaction{db: db, conn: conn, savepoint: savepoint, server: server}
	t.outer = &handle{t: t}
	return t, nil
}

// Exec implements [txmsg.Database].
func (db *DB) Exec(ctx context.Context, tx pgx.Tx, stmts ...txmsg.Statement) error {
	for _, stmt := range stmts {
		if _, err := tx.Exec(ctx, stmt.SQL, stmt.Args...); err != nil {
			return fmt.Errorf("postgres: write: %w", err)
		}
	}
	return nil
}

// Conflict implements [txmsg.Database].
func (db *DB) Conflict(err error) bool {
	code := sqlState(err)
	return code == serializationFailure || code == deadlockDetected
}

// sql puts the schema before the library's tables, the only words of its statements that begin with txmsg_.
func (db *DB) sql(text string) string {
	if db.schema == "" {
		return text
	}
	return strings.ReplaceAll(text, "txmsg_", pgx.Identifier{db.schema}.Sanitize()+".txmsg_")
}

// pipeline runs the statements that fill queues in one transaction, on one connection and in one round trip. It is read
// committed, whatever the server's default: each statement sees what was committed before it began, so one that follows a
// statement that waited for a lock sees what the lock's holder did. An error rolls back, unless it is an unclear commit.
func (db *DB) pipeline(ctx context.Context, fill func(*pgx.Batch)) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // destroys a connection that is broken or still in a transaction
	batch := &pgx.Batch{}
	batch.Queue("begin isolation level read committed")
	fill(batch)
	batch.Queue("commit")
	err = conn.SendBatch(ctx, batch).Close()
	if err != nil && conn.Conn().PgConn().TxStatus() == 'E' {
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			db.logger.DebugContext(ctx, "rollback", "error", err)
		}
	}
	return err
}

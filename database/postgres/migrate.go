package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migration/*.sql
var migrations embed.FS

const (
	migrationTable = "txmsg_migration"
	oldestServer   = 130000 // the first with pg_current_xact_id and gen_random_uuid
)

// Migrate brings the tables to the version that this release needs. It may be called at every start and by many
// instances at once: they wait for each other. A [Config.Schema] that does not exist is created. It uses
// connections of its own, which must lead to the server itself or to a pooler in session mode, and the pool.
func (db *DB) Migrate(ctx context.Context) error {
	if err := db.migrate(ctx); err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	return nil
}

func (db *DB) migrate(ctx context.Context) (err error) {
	files, err := fs.Sub(migrations, "migration")
	if err != nil {
		return err
	}
	conns := db.open()
	defer func() {
		if closed := conns.Close(); err == nil {
			err = closed
		}
	}()
	if err := db.inspect(ctx, conns); err != nil {
		return err
	}
	if err := db.createSchema(ctx, conns); err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conns, files,
		goose.WithTableName(migrationTable), goose.WithSessionLocker(migrationLock{schema: db.schema}),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	for _, result := range results {
		db.logger.InfoContext(ctx, "migrated", "version", result.Source.Version, "duration", result.Duration)
	}
	if err != nil || len(results) == 0 { // later partitions are the relays', whose role may be another
		return err
	}
	partitions, today, err := db.partitions(ctx)
	if err != nil {
		return err
	}
	db.prepare(ctx, partitions, today)
	return nil
}

// open returns database/sql connections that are made as the pool's are, with the schema as their search path.
func (db *DB) open() *sql.DB {
	pool := db.pool.Config()
	cfg := pool.ConnConfig.Copy()
	if db.schema != "" {
		cfg.RuntimeParams["search_path"] = pgx.Identifier{db.schema}.Sanitize()
	}
	var options []stdlib.OptionOpenDB
	if pool.BeforeConnect != nil {
		options = append(options, stdlib.OptionBeforeConnect(pool.BeforeConnect))
	}
	if pool.AfterConnect != nil {
		options = append(options, stdlib.OptionAfterConnect(pool.AfterConnect))
	}
	return stdlib.OpenDB(*cfg, options...)
}

// inspect refuses a server that is too old, and tells of a setting that weakens the promise.
func (db *DB) inspect(ctx context.Context, conns *sql.DB) error {
	var version int
	var synchronous string
	const settings = `SELECT current_setting('server_version_num')::int, current_setting('synchronous_commit')`
	if err := conns.QueryRowContext(ctx, settings).Scan(&version, &synchronous); err != nil {
		return err
	}
	if version < oldestServer {
		return fmt.Errorf("server version must be at least %d, got %d", oldestServer, version)
	}
	if synchronous == "off" {
		db.logger.WarnContext(ctx, "a crash of the server can lose transactions whose messages were sent", "synchronous_commit", synchronous)
	}
	return nil
}

// createSchema makes the schema that is configured, unless it is there: IF NOT EXISTS asks for the right to make it even then, and fails when
// two do it at once.
func (db *DB) createSchema(ctx context.Context, conns *sql.DB) error {
	if db.schema == "" {
		return nil
	}
	tx, err := conns.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(`+lockKeySQL+`)`, db.schema); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, db.schema).Scan(&exists); err != nil || exists {
		return err
	}
	if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+pgx.Identifier{db.schema}.Sanitize()); err != nil {
		return err
	}
	return tx.Commit()
}

// migrationLock makes instances wait for each other. It is a lock of the session, on the schema that the tables are in.
type migrationLock struct{ schema string }

const lockKeySQL = `hashtextextended('txmsg_migration/' || coalesce(nullif($1::text, ''), current_schema()), 0)`

func (l migrationLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock(`+lockKeySQL+`)`, l.schema); err != nil {
		return fmt.Errorf("wait for other instances: %w", err)
	}
	return nil
}

func (l migrationLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock(`+lockKeySQL+`)`, l.schema)
	return err
}

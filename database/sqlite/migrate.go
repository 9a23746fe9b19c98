package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migration/*.sql
var migrations embed.FS

const migrationTable = "txmsg_migration"

// Migrate brings the tables of this package to their newest version. Several processes may do it at once: one of them
// works and the others find it done. All versions that are missing come in one transaction, so a process that is killed
// leaves the file as it was. A file whose version is newer is left alone. It waits for writers until ctx ends.
func (db *DB) Migrate(ctx context.Context) error {
	select {
	case db.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("sqlite: migrate: %w", context.Cause(ctx))
	}
	defer func() { <-db.gate }()
	// goose looks at its table, and makes it, before it takes a lock of its own. The writer has one connection, so
	// that all it does is inside the transaction that is opened here.
	if err := db.lock(ctx); err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	end := "COMMIT"
	err := db.migrate(ctx)
	if err != nil {
		end = "ROLLBACK"
	}
	if _, failed := db.writer.db.ExecContext(context.WithoutCancel(ctx), end); failed != nil {
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	return nil
}

func (db *DB) lock(ctx context.Context) error {
	tick := time.NewTicker(openPause)
	defer tick.Stop()
	for {
		_, err := db.writer.db.ExecContext(ctx, "BEGIN IMMEDIATE")
		if err == nil || !db.Conflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (db *DB) migrate(ctx context.Context) error {
	sources, err := fs.Sub(migrations, "migration")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.writer.db, sources,
		goose.WithTableName(migrationTable),
		goose.WithDisableGlobalRegistry(true),
		goose.WithIsolateDDL(true), // no transaction of its own inside ours
	)
	if err != nil {
		return err
	}
	applied, err := provider.Up(ctx)
	for _, result := range applied {
		db.cfg.Logger.InfoContext(ctx, "migrate", "version", result.Source.Version)
	}
	return err
}

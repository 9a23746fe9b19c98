package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"regexp"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite is a DB over database/sql.
type SQLite struct{ DB *sql.DB }

var _ DB[*sql.Tx] = SQLite{}

var dollar = regexp.MustCompile(`\$(\d+)`)

// numbered is query in SQLite's syntax for numbered parameters.
func numbered(query string) string { return dollar.ReplaceAllString(query, "?$1") }

// Exec implements DB.
func (s SQLite) Exec(ctx context.Context, tx *sql.Tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, numbered(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Find implements DB.
func (s SQLite) Find(ctx context.Context, tx *sql.Tx, query string, args []any, scan ...any) (bool, error) {
	err := tx.QueryRowContext(ctx, numbered(query), args...).Scan(scan...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Each implements DB.
func (s SQLite) Each(ctx context.Context, query string, args []any, row func(scan func(...any) error) error) error {
	rows, err := s.DB.QueryContext(ctx, numbered(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Create implements DB.
func (s SQLite) Create(ctx context.Context, ddl string) error {
	_, err := s.DB.ExecContext(ctx, ddl)
	return err
}

// Duplicate implements DB.
func (s SQLite) Duplicate(err error) bool {
	var sqliteErr *sqlite.Error
	if !errors.As(err, &sqliteErr) {
		return false
	}
	code := sqliteErr.Code()
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// Package sqldb lets the demo's services say their few SQL statements once, for pgx and for database/sql. Statements
// number their parameters $1, $2, …
package sqldb

import "context"

// DB runs statements in a transaction of the driver's type Tx, or outside of any.
type DB[Tx any] interface {
	// Exec runs a statement inside tx and returns how many rows it changed.
	Exec(ctx context.Context, tx Tx, query string, args ...any) (int64, error)
	// Find calls scan with the first row of a query inside tx and reports whether there was one.
	Find(ctx context.Context, tx Tx, query string, args []any, scan ...any) (bool, error)
	// Each calls row for every row of a query outside of any transaction; row scans it.
	Each(ctx context.Context, query string, args []any, row func(scan func(...any) error) error) error
	// Create runs the DDL statements; they may run again.
	Create(ctx context.Context, ddl string) error
	// Duplicate reports whether err says that a unique key exists already.
	Duplicate(err error) bool
}

package sqldb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PGX is a DB over a pgx pool.
type PGX struct{ Pool *pgxpool.Pool }

var _ DB[pgx.Tx] = PGX{}

// Exec implements DB.
func (p PGX) Exec(ctx context.Context, tx pgx.Tx, query string, args ...any) (int64, error) {
	tag, err := tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

// Find implements DB.
func (p PGX) Find(ctx context.Context, tx pgx.Tx, query string, args []any, scan ...any) (bool, error) {
	err := tx.QueryRow(ctx, query, args...).Scan(scan...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Each implements DB.
func (p PGX) Each(ctx context.Context, query string, args []any, row func(scan func(...any) error) error) error {
	rows, err := p.Pool.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Create implements DB. Two services that create their tables at once are kept apart by an advisory lock.
func (p PGX) Create(ctx context.Context, ddl string) error {
	return pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('txmsg demo'))"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, ddl)
		return err
	})
}

// Duplicate implements DB.
func (p PGX) Duplicate(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23505"
}

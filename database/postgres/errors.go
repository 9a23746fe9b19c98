package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmsg/txmsg-go/txmsg"
)

// SQLSTATE codes that decide something here.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	checkViolation       = "23514"
	lockNotAvailable     = "55P03"
	duplicateTable       = "42P07"
	undefinedTable       = "42P01"
)

// sqlState returns the code of the server's error in err, or "".
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// commitError says what an error of the round trip that carried COMMIT means. Three kinds prove that the transaction can no
// longer commit: the batch was never sent; pgx knows that no byte left; the server answered with severity ERROR, in which
// case it skips the rest of the batch, COMMIT with it, or COMMIT itself failed and rolled back. Everything else is unclear:
// a FATAL may come from a session that was ended after its commit.
func commitError(err error) error {
	var unsent pgx.ErrPreprocessingBatch
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &unsent), pgconn.SafeToRetry(err):
		return fmt.Errorf("postgres: commit: %w", err)
	case errors.As(err, &pgErr) && severity(pgErr) == "ERROR" && !strings.HasPrefix(pgErr.Code, "08"):
		return fmt.Errorf("postgres: commit: %w", err)
	default:
		return fmt.Errorf("postgres: commit: %w: %w", txmsg.ErrOutcomeUnknown, err)
	}
}

func severity(err *pgconn.PgError) string {
	if err.SeverityUnlocalized != "" {
		return err.SeverityUnlocalized
	}
	return err.Severity
}

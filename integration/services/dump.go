package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Dump returns the database at dsn as pg_dump writes it.
func Dump(t testing.TB, dsn string) []byte {
	t.Helper()
	return postgresClient(t, nil, "pg_dump", "--no-owner", "--dbname="+dsn)
}

// Restore runs a dump in the empty database at dsn, in one transaction.
func Restore(t testing.TB, dsn string, dump []byte) {
	t.Helper()
	postgresClient(t, dump, "psql", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--dbname="+dsn)
}

// postgresClient runs one of PostgreSQL's client programs, which Debian installs with the server.
func postgresClient(t testing.TB, input []byte, name string, arguments ...string) []byte {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		folder, missing := postgresPrograms()
		if missing != nil {
			postgres.miss(t, fmt.Errorf("%w: %w: %w", err, missing, errMissing))
		}
		program = filepath.Join(folder, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdin = bytes.NewReader(input)
	output, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("%s: %v", name, err)
	}
	return output
}

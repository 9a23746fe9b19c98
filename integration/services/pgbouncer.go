package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// StartPgBouncer puts a pooler in transaction mode before the server at dsn; it is t's alone and ends with it. Its address is
// dsn with the pooler's host and port. Settings are those of pgbouncer.ini.
func StartPgBouncer(t testing.TB, dsn string, settings map[string]string) *Server {
	t.Helper()
	return pgbouncer(parseDSN(t, dsn)).start(t, place{config: settings})
}

// pgbouncer is a service of its own for each server that it stands before, so there is none to share.
func pgbouncer(server *url.URL) *service {
	address := func(p place) string {
		through := *server
		through.Host = join(p.host, p.port())
		return through.String()
	}
	ready := func(ctx context.Context, dsn string) error { return postgresReady(ctx, dsn) }
	return &service{
		name:    "pgbouncer",
		ports:   1,
		address: address,
		ready:   ready,
		native: func(_ context.Context, p place) ([]daemon, error) {
			return pgbouncerNative(p, server, func(ctx context.Context) error { return ready(ctx, address(p)) })
		},
		image: func(p place) image {
			const file = "/etc/pgbouncer/pgbouncer.ini"
			return image{name: "edoburu/pgbouncer:v1.23.1-p3", host: true, files: map[string]string{file: pgbouncerConfig(p, server)}}
		},
		installed: func() error {
			_, noProgram := pgbouncerProgram()
			_, noUser := postgresUser()
			return errors.Join(noProgram, noUser)
		},
		packages: []string{"pgbouncer"},
	}
}

func pgbouncerConfig(p place, server *url.URL) string {
	settings := map[string]string{
		"listen_addr":       p.bind,
		"listen_port":       strconv.Itoa(p.port()),
		"unix_socket_dir":   "",
		"auth_type":         "any",
		"pool_mode":         "transaction",
		"default_pool_size": "8",
		"max_client_conn":   "400",
	}
	maps.Copy(settings, p.config)
	upstream := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n", server.Hostname(), server.Port(), server.User.Username())
	return upstream + "[pgbouncer]\n" + lines(settings, " = ")
}

func pgbouncerNative(p place, server *url.URL, ready func(context.Context) error) ([]daemon, error) {
	program, err := pgbouncerProgram()
	if err != nil {
		return nil, err
	}
	owner, err := postgresUser() // it refuses to be root too
	if err != nil {
		return nil, err
	}
	config := filepath.Join(p.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(pgbouncerConfig(p, server)), 0o644); err != nil {
		return nil, err
	}
	return []daemon{{
		name: "pgbouncer", argv: []string{program, config}, user: owner,
		stop: syscall.SIGINT, quit: syscall.SIGKILL, ready: ready,
	}}, nil
}

// pgbouncerProgram also looks where Debian has it, which is not in every user's search path.
func pgbouncerProgram() (string, error) {
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		return found, nil
	}
	return exec.LookPath("/usr/sbin/pgbouncer")
}

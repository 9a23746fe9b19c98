package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var postgres = &service{
	name:     "postgres",
	variable: "TXMSG_TEST_POSTGRES",
	ports:    1,
	address:  postgresAddress,
	ready:    postgresReady,
	native:   postgresNative,
	image:    postgresImage,
	installed: func() error {
		_, noPrograms := postgresPrograms()
		_, noUser := postgresUser()
		return errors.Join(noPrograms, noUser)
	},
	packages: []string{"postgresql"},
}

// Postgres returns the DSN of a PostgreSQL server with logical decoding on, connected as a superuser. Other tests use the
// server at the same time: take a Database or a Schema of your own.
func Postgres(t testing.TB) string {
	t.Helper()
	return postgres.provide(t)
}

// StartPostgres starts a server that is t's alone and ends with it. Settings are those of postgresql.conf.
func StartPostgres(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	return postgres.start(t, place{config: settings})
}

// Database creates an empty database on the server at dsn and returns its DSN. When t ends, the database goes, with its
// connections and replication slots.
func Database(t testing.TB, dsn string) string {
	t.Helper()
	name := uniqueName()
	execute(t, dsn, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		execute(t, dsn,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'",
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '"+name+"'",
			"DROP DATABASE "+name+" WITH (FORCE)")
	})
	parsed := parseDSN(t, dsn)
	parsed.Path = "/" + name
	return parsed.String()
}

// Schema creates an empty schema in the database at dsn and returns a DSN in which the schema is the search path. It costs
// a hundredth of a Database; replication slots, advisory locks and notifications are shared with others. When t ends, the
// schema goes.
func Schema(t testing.TB, dsn string) string {
	t.Helper()
	name := uniqueName()
	execute(t, dsn, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, dsn, "DROP SCHEMA "+name+" CASCADE") })
	parsed := parseDSN(t, dsn)
	query := parsed.Query()
	query.Set("search_path", name)
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

func uniqueName() string { return "txmsg_" + strings.ToLower(rand.Text()[:16]) }

func parseDSN(t testing.TB, dsn string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(dsn)
	if err != nil || parsed.Host == "" {
		t.Fatalf("DSN must have the form postgres://user@host:port/database, got %q", dsn)
	}
	return parsed
}

func execute(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close(ctx) }()
	for _, statement := range statements {
		if _, err := connection.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func postgresAddress(p place) string {
	return fmt.Sprintf("postgres://postgres@%s:%d/postgres", p.host, p.port())
}

func postgresReady(ctx context.Context, dsn string) error {
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(ctx) }()
	_, err = connection.Exec(ctx, "SELECT 1")
	return err
}

// postgresArguments turns the settings of one instance into server arguments.
func postgresArguments(p place, listen string) []string {
	settings := map[string]string{
		"port":                    strconv.Itoa(p.port()),
		"listen_addresses":        listen,
		"unix_socket_directories": "",
		"wal_level":               "logical",
		"max_connections":         "400",
		"max_wal_senders":         "40",
		"max_replication_slots":   "40",
	}
	maps.Copy(settings, p.config)
	var arguments []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "-c", name+"="+settings[name])
	}
	return arguments
}

func postgresNative(ctx context.Context, p place) ([]daemon, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	owner, err := postgresUser()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(p.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if owner != nil {
		if err := os.Chown(data, int(owner.Uid), int(owner.Gid)); err != nil {
			return nil, err
		}
	}
	create := exec.CommandContext(ctx, filepath.Join(programs, "initdb"),
		"-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync")
	create.Dir = p.dir
	create.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if output, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	return []daemon{{
		name:  "postgres",
		argv:  append([]string{filepath.Join(programs, "postgres"), "-D", data}, postgresArguments(p, p.bind)...),
		user:  owner,
		stop:  syscall.SIGINT,
		quit:  syscall.SIGQUIT,
		ready: func(ctx context.Context) error { return postgresReady(ctx, postgresAddress(p)) },
	}}, nil
}

// postgresPrograms is the folder of the newest server. Debian keeps it out of the search path.
func postgresPrograms() (string, error) {
	if found, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(found), nil
	}
	newest, version := "", 0
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is well formed
	for _, file := range installed {
		folder := filepath.Dir(file)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(folder))); err == nil && v > version {
			newest, version = folder, v
		}
	}
	if newest == "" {
		return "", errors.New("no PostgreSQL server in the search path or below /usr/lib/postgresql")
	}
	return newest, nil
}

// postgresUser is whom the server runs as when it would be root, which it refuses to be.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to run as root: %w", err)
	}
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func postgresImage(p place) image {
	return image{
		name:    "postgres:15",
		env:     map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"},
		command: append([]string{"postgres"}, postgresArguments(p, net.IPv4zero.String())...),
	}
}

package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// server is the PostgreSQL server that all contenders share.
type server struct {
	dsn        string
	postmaster int // its process, 0 when it is not on this machine
}

func newServer(ctx context.Context, dsn string) (*server, error) {
	s := &server{dsn: dsn}
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "wal_level": "logical"} {
		got, err := s.setting(ctx, setting)
		if err != nil {
			return nil, err
		}
		if got != want {
			return nil, fmt.Errorf("PostgreSQL's %s must be %s, got %s", setting, want, got)
		}
	}
	pid := 0
	if err := s.row(ctx, `SELECT pg_backend_pid()`, &pid); err != nil {
		return nil, err
	}
	s.postmaster = parentOf(pid)
	return s, nil
}

func (s *server) setting(ctx context.Context, name string) (value string, err error) {
	err = s.row(ctx, "SHOW "+name, &value)
	return value, err
}

// row runs one statement on a connection to no contender's database.
func (s *server) row(ctx context.Context, sql string, into ...any) error {
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if len(into) == 0 {
		_, err = conn.Exec(ctx, sql)
	} else {
		err = conn.QueryRow(ctx, sql).Scan(into...)
	}
	if err != nil {
		return fmt.Errorf("%.100s: %w", sql, err)
	}
	return nil
}

// database is one contender's for one measurement.
type database struct {
	server *server
	name   string
	dsn    string
	pool   *pgxpool.Pool
}

// fresh makes an empty database with the table of orders.
func (s *server) fresh(ctx context.Context) (*database, error) {
	name := fmt.Sprintf("txmsg_bench_%d", time.Now().UnixNano())
	if err := s.row(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	parsed, err := url.Parse(s.dsn)
	if err != nil {
		return nil, err
	}
	parsed.Path = "/" + name
	db := &database{server: s, name: name, dsn: parsed.String()}
	if err := db.connect(ctx); err != nil {
		return nil, err
	}
	return db, db.exec(ctx, createOrdersSQL, createBodySQL)
}

// connect opens the pool; it has more connections than there are writers, for the relay.
func (d *database) connect(ctx context.Context) error {
	cfg, err := pgxpool.ParseConfig(d.dsn)
	if err != nil {
		return err
	}
	cfg.MaxConns, cfg.MinConns = 24, writers
	d.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	return err
}

func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.100s: %w", sql, err)
		}
	}
	return nil
}

func (d *database) drop(ctx context.Context) {
	d.pool.Close()
	_ = d.server.row(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '`+d.name+`' AND NOT active`)
	_ = d.server.row(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)") // one that stays harms no later measurement
}

// fill runs a statement for each i from 1 to count, committing every few: as if each message had its own transaction.
func (d *database) fill(ctx context.Context, statement string, count int) error {
	each := max(1, count/50_000)
	procedure := fmt.Sprintf(`CREATE PROCEDURE fill() LANGUAGE plpgsql AS $p$ BEGIN
FOR i IN 1..%d LOOP %s; IF i %% %d = 0 THEN COMMIT; END IF; END LOOP; END $p$`, count, statement, each)
	conn, err := pgx.Connect(ctx, d.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{procedure, "SET synchronous_commit = off", "CALL fill()", "VACUUM ANALYZE"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.300s: %w", sql, err)
		}
	}
	return nil
}

// counters grow with a database's work. CPU is in seconds and counts the whole server.
type counters struct {
	transactions, wal int64
	cpu               float64
}

func (d *database) counters(ctx context.Context) (c counters, err error) {
	err = d.server.row(ctx, `SELECT xact_commit + xact_rollback, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint
FROM pg_stat_database WHERE datname = '`+strings.ReplaceAll(d.name, "'", "''")+`'`, &c.transactions, &c.wal)
	c.cpu = d.server.cpu()
	return c, err
}

package demo

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/demo/sqldb"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/rocketmq"
	"github.com/txmsg/txmsg-go/txmsg"
)

// database is one service's database in the forms in which the parts need it.
type database[Tx any] struct {
	sql      sqldb.DB[Tx]
	messages localtable.Store[Tx]
	inbox    consumer.Store[Tx]
	backends txmsg.Backends[Tx]
	sent     []string // tables with a row for every message that was written and needs no relay any more
	close    func()
}

// opener opens the database of the service called name and brings its tables up to date.
type opener[Tx any] func(ctx context.Context, cfg Config, probe Probe, name string) (*database[Tx], error)

func openSQLite(ctx context.Context, cfg Config, probe Probe, name string) (*database[*sql.Tx], error) {
	db, err := sqlite.Open(ctx, filepath.Join(cfg.DataDir, name+".db"), sqlite.Config{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return &database[*sql.Tx]{
		sql:      sqldb.SQLite{DB: db.Pool()},
		messages: db,
		inbox:    db,
		backends: txmsg.Backends[*sql.Tx]{
			"localtable/nats":  localtable.On(db, probed(probe, nats.Open)),
			"localtable/kafka": localtable.On(db, probed(probe, kafka.Open)),
		},
		sent:  []string{"txmsg_delivered"},
		close: func() { _ = db.Close() },
	}, nil
}

func openPostgres(ctx context.Context, cfg Config, probe Probe, name string) (*database[pgx.Tx], error) {
	settings, err := pgxpool.ParseConfig(cfg.Database)
	if err != nil {
		return nil, fmt.Errorf("demo: database: %w", err)
	}
	schema := cfg.Name + "_" + name
	settings.ConnConfig.RuntimeParams["search_path"] = schema
	settings.MaxConns = max(settings.MaxConns, 16)
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("demo: database: %w", err)
	}
	db, err := preparePostgres(ctx, pool, schema, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &database[pgx.Tx]{
		sql:      sqldb.PGX{Pool: pool},
		messages: db,
		inbox:    db,
		backends: txmsg.Backends[pgx.Tx]{
			"localtable/nats":  localtable.On(db, probed(probe, nats.Open)),
			"localtable/kafka": localtable.On(db, probed(probe, kafka.Open)),
			"rocketmq":         rocketmq.On(db),
		},
		sent:  []string{"txmsg_delivered", "txmsg_half WHERE state = 'committed'"},
		close: pool.Close,
	}, nil
}

func preparePostgres(ctx context.Context, pool *pgxpool.Pool, schema string, cfg Config) (*postgres.DB, error) {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()); err != nil {
		return nil, fmt.Errorf("demo: create schema: %w", err)
	}
	db, err := postgres.New(pool, postgres.Config{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	return db, db.Migrate(ctx)
}

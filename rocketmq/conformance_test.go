package rocketmq

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

func TestConformanceInMemory(t *testing.T) {
	txmsgtest.Run(t, txmsgtest.Harness[memoryTx]{
		Open:  openMemoryWorld,
		Scale: txmsgtest.Scale{Workers: 8, Rounds: 20},
		Leaks: rocketmqtest.Leaks(),
	})
}

func openMemoryWorld(t *testing.T) txmsgtest.Bundle[memoryTx] {
	w, store := newWorld(t), storetest.NewMemory()
	return txmsgtest.Bundle[memoryTx]{
		Messenger: func(t *testing.T) txmsg.Messenger[memoryTx] { return openMessenger(t, w, "", store) },
		Write: func(_ context.Context, tx memoryTx, id string) error {
			return tx.Put(id, "")
		},
		Rows: func(context.Context) ([]string, error) { return store.Keys(), nil },
		Nested: func(ctx context.Context, tx memoryTx, _ txmsg.Publisher, fn func(context.Context, memoryTx) error) error {
			return tx.Nested(func() error { return fn(ctx, tx) })
		},
		Topic:   w.topic,
		Receive: w.receive,
		Quiesce: w.quiesce,
		Hooks: txmsgtest.Hooks[memoryTx]{
			Conflict:  storetest.ErrConflict,
			Redeliver: func(*testing.T) { w.twice.Store(true) },
			FailStatement: func(ctx context.Context, tx memoryTx) error {
				return store.Exec(ctx, tx, txmsg.Statement{SQL: "nonsense"})
			},
			FailCommit: func(context.Context, memoryTx) error {
				store.Inject(storetest.OpCommit, storetest.Fault{Err: errors.New("deferred constraint")})
				return nil
			},
		},
	}
}

func TestConformancePostgres(t *testing.T) {
	txmsgtest.Run(t, txmsgtest.Harness[pgx.Tx]{
		Open:  openPostgresWorld,
		Leaks: rocketmqtest.Leaks(),
	})
}

// asText makes pgx send the text of every statement, in which the proxy finds COMMIT.
func asText(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }

func openPostgresWorld(t *testing.T) txmsgtest.Bundle[pgx.Tx] {
	w, d := newWorld(t), newDatabase(t)
	link := newCommitProxy(t, d.dsn)
	through := openDatabase(t, link.dsn, asText)
	return txmsgtest.Bundle[pgx.Tx]{
		Messenger: func(t *testing.T) txmsg.Messenger[pgx.Tx] { return openMessenger(t, w, "", through.DB) },
		Write:     d.write,
		Rows:      d.rows,
		Nested: func(ctx context.Context, tx pgx.Tx, _ txmsg.Publisher, fn func(context.Context, pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return fn(ctx, tx) })
		},
		Topic:   w.topic,
		Receive: w.receive,
		Quiesce: w.quiesce,
		Hooks: txmsgtest.Hooks[pgx.Tx]{
			Conflict: &pgconn.PgError{Code: "40001"},
			Contend: func(ctx context.Context, tx pgx.Tx, meet func()) error {
				if _, err := tx.Exec(ctx, "SELECT value FROM counter"); err != nil {
					return err
				}
				meet()
				_, err := tx.Exec(ctx, "UPDATE counter SET value = value + 1")
				return err
			},
			FailStatement: func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT 1/0")
				return err
			},
			FailCommit: func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO once VALUES (1)")
				return err
			},
			UnclearCommits: []txmsgtest.Fault[pgx.Tx]{
				{Name: "the reply is lost", Committed: true, Start: link.start(loseReply)},
				{Name: "the request is lost", Start: link.start(loseRequest)},
			},
			Redeliver: func(*testing.T) { w.twice.Store(true) },
			Pooled: func(t *testing.T, connections int) txmsg.Messenger[pgx.Tx] {
				small := openDatabase(t, d.dsn, func(c *pgxpool.Config) { c.MaxConns = int32(connections) })
				m := openMessenger(t, w, "", small.DB)
				runMessenger(t, m)
				return m
			},
		},
	}
}

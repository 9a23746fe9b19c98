package postgres_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// BenchmarkWrite compares Transact with one message to the same transaction without it, by sixteen writers.
func BenchmarkWrite(b *testing.B) {
	db := setupAt(b, services.Schema(b, services.Postgres(b)), postgres.Config{})
	db = open(b, db.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 24 })
	db.exec(b, `CREATE TABLE bench (id bigint PRIMARY KEY, customer_id bigint NOT NULL, amount_cents bigint NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
	const insert = `INSERT INTO bench (id, customer_id, amount_cents, status) VALUES ($1, $2, $3, $4)`
	var ids atomic.Int64
	body := make([]byte, 326)
	bare := func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
			id := ids.Add(1)
			_, err := tx.Exec(ctx, insert, id, id%1000, id%100000, "new")
			return err
		})
	}
	ours := func(ctx context.Context) error {
		return db.transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			id := ids.Add(1)
			if _, err := tx.Exec(ctx, insert, id, id%1000, id%100000, "new"); err != nil {
				return err
			}
			return out.Publish(ctx, txmsg.Message{Topic: "orders", Key: "order-" + strconv.FormatInt(id, 10), Body: body})
		})
	}
	for name, write := range map[string]func(context.Context) error{"bare": bare, "with a message": ours} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(8) // of two processors
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := write(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
		})
	}
}

// BenchmarkDrain reads and settles batches of 500, and measures one message.
func BenchmarkDrain(b *testing.B) {
	for name, archive := range map[string]bool{"deleting": false, "archiving": true} {
		b.Run(name, func(b *testing.B) {
			db := setup(b)
			db.exec(b, `INSERT INTO txmsg_message (destination, topic, key, body) SELECT 'test', 'orders', 'order-' || i, decode(repeat('ab', 326), 'hex') FROM generate_series(1, $1) i`, b.N)
			lease, err := db.Lease(b.Context(), "first", time.Hour)
			require.NoError(b, err)
			b.ResetTimer()
			for drained := 0; drained < b.N; {
				rows, err := db.Read(b.Context(), "test", lease.Lanes, 500)
				require.NoError(b, err)
				results := make([]localtable.Result, len(rows))
				for i, row := range rows {
					results[i] = localtable.Result{Row: row, Fate: localtable.Delivered}
				}
				n, err := db.Settle(b.Context(), localtable.Settlement{Owner: "first", Lanes: lease.Lanes, Archive: archive, Results: results})
				require.NoError(b, err)
				require.Len(b, rows, n)
				drained += n
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

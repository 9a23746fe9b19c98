package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// BenchmarkTransact writes one order in a transaction: bare with the driver, with a message, and with a relay that sends
// and settles at the same time; alone and from 16 goroutines a core. All are bound by the flush of the disk.
func BenchmarkTransact(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprintf("bare/%d", parallel), func(b *testing.B) {
			db := setup(b)
			db.Pool().SetMaxOpenConns(1) // the fastest way to queue writers
			writeOrders(b, parallel, func(id int64) error {
				tx, err := db.Pool().Begin()
				if err != nil {
					return err
				}
				if _, err := tx.Exec(insertOrder, id); err != nil {
					return err
				}
				return tx.Commit()
			})
		})
		b.Run(fmt.Sprintf("with a message/%d", parallel), func(b *testing.B) {
			benchmarkMessages(b, parallel, messenger(b, setup(b)))
		})
		b.Run(fmt.Sprintf("with a message and a relay/%d", parallel), func(b *testing.B) {
			m := messenger(b, setup(b))
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- m.Run(ctx) }()
			benchmarkMessages(b, parallel, m)
			b.StopTimer()
			cancel()
			require.NoError(b, <-ended)
		})
	}
}

func messenger(b *testing.B, db *sqlite.DB) *localtable.Messenger[*sql.Tx] {
	b.Helper()
	broker := &broker{topics: map[string][]txmsg.Message{}, changed: make(chan struct{})}
	m, err := localtable.New(db, connection{broker}, localtable.Config{})
	require.NoError(b, err)
	return m
}

func benchmarkMessages(b *testing.B, parallel int, m *localtable.Messenger[*sql.Tx]) {
	b.Helper()
	body := make([]byte, 300)
	writeOrders(b, parallel, func(id int64) error {
		return m.Transact(b.Context(), func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
			if _, err := tx.ExecContext(ctx, insertOrder, id); err != nil {
				return err
			}
			return out.Publish(ctx, txmsg.Message{Topic: "orders", Key: "k", Type: "order.created", Body: body})
		})
	})
}

func writeOrders(b *testing.B, parallel int, write func(id int64) error) {
	b.Helper()
	var next atomic.Int64
	b.SetParallelism(parallel)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := write(next.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkRelay reads and settles batches of 500, kept and deleted.
func BenchmarkRelay(b *testing.B) {
	for _, archive := range []bool{false, true} {
		b.Run(fmt.Sprintf("archive=%v", archive), func(b *testing.B) {
			db := setup(b)
			lease, err := db.Lease(b.Context(), "me", time.Hour)
			require.NoError(b, err)
			bulk(b, db, 500*b.N, "ready", `i % 100`)
			b.ResetTimer()
			for range b.N {
				rows, err := db.Read(b.Context(), "d", lease.Lanes, 500)
				require.NoError(b, err)
				require.Len(b, rows, 500)
				results := make([]localtable.Result, len(rows))
				for i, row := range rows {
					results[i] = localtable.Result{Row: row, Fate: localtable.Delivered}
				}
				changed, err := db.Settle(b.Context(), localtable.Settlement{Owner: "me", Lanes: lease.Lanes, Results: results, Archive: archive})
				require.NoError(b, err)
				require.Equal(b, 500, changed)
			}
			b.ReportMetric(500*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// bulk writes rows n of a state at once: key is an SQL expression over i.
func bulk(t testing.TB, db *sqlite.DB, n int, state, key string) {
	t.Helper()
	_, err := db.Pool().ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO txmsg_message (destination, topic, key, body, state, delayed, holds, due_at)
		SELECT 'd', 'orders', `+key+`, zeroblob(300), ?2, ?2 = 'waiting', ?2 = 'retry', unixepoch() * 1000 + 3600000 FROM n`, n, state)
	require.NoError(t, err)
}

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
)

func TestSizeCases(t *testing.T) {
	t.Parallel()
	t.Run("C66 a transaction that keeps dead rows in the tables is seen until it ends", testSnapshotSeen)
}

func testSnapshotSeen(t *testing.T) {
	t.Parallel()
	const old = time.Second
	ctx := context.Background()
	s := newShop(t, services.Database(t, services.Postgres(t)), onKafka(t))
	// Transactions of other tests that write are seen too, in whatever database they are: each look waits until those are over.
	age := func() time.Duration { return s.status(t).OldestSnapshot }
	for name, open := range map[string]func(tx pgx.Tx) error{
		"reader": func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT FROM orders")
			return err
		},
		"writer": func(tx pgx.Tx) error { return insertOrder(ctx, tx, "other work") },
	} {
		isolation := pgx.ReadCommitted
		if name == "reader" {
			isolation = pgx.RepeatableRead
		}
		eventually(t, func() bool { return age() < old }, "nothing old, before the "+name)
		began := time.Now()
		tx, err := s.direct.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation})
		require.NoError(t, err)
		require.NoError(t, open(tx))
		eventually(t, func() bool { return age() > old }, "the "+name+" to be seen")
		eventually(t, func() bool { return age() <= time.Since(began) }, "the "+name+" to be the oldest")
		require.NoError(t, tx.Rollback(ctx))
		eventually(t, func() bool { return age() < old }, "the "+name+"'s end to be seen")
	}
	tx, err := s.direct.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "SELECT FROM orders")
	require.NoError(t, err)
	pause(2 * old)
	eventually(t, func() bool { return age() < old }, "a transaction that is idle and holds no snapshot to do no harm")
	require.NoError(t, tx.Rollback(ctx))
}

// testStuckKey measures. What a look costs, whatever the machine does, is judged beside the statements.
func testStuckKey(t *testing.T) {
	const stuck, later, others = 200_000, 500, 1000
	ctx := context.Background()
	s := newShop(t, services.Postgres(t), onKafka(t))
	_, err := s.direct.Exec(ctx, `INSERT INTO txmsg_held (destination, topic, key, body, state, delayed, holds, attempts, due_at)
		SELECT 'default', $1, 'stuck', 'x', CASE n WHEN 1 THEN 'retry' ELSE 'parked' END, false, n = 1, (n = 1)::int,
			CASE n WHEN 1 THEN clock_timestamp() + interval '1 h' END
		FROM generate_series(1, $2) n`, s.topic, stuck)
	require.NoError(t, err)
	m := s.messenger(t, localtable.Config{})
	run(t, m)
	eventually(t, func() bool { return m.Health().Lanes == localtable.Lanes }, "the relay to hold all lanes")
	rounds := requireWithin(t, 5*time.Second, "to send the others", func() time.Duration {
		begin := time.Now()
		s.fill(t, others)
		_, err := s.direct.Exec(ctx, `INSERT INTO txmsg_message (destination, topic, key, body) SELECT 'default', $1, 'stuck', 'x' FROM generate_series(1, $2)`, s.topic, later)
		require.NoError(t, err)
		m.Wake()
		eventually(t, func() bool { return s.status(t).Ready == 0 }, "the others to be sent")
		return time.Since(begin)
	})
	require.Len(t, copies(s.awaitDelivered(t)), rounds*others)
	status := s.status(t)
	require.EqualValues(t, 1, status.Retry)
	require.EqualValues(t, stuck-1+rounds*later, status.Parked)
}

package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
)

// look reads with a sight, if there is reason to take one.
func (r relay) look(t *testing.T) []localtable.Row {
	t.Helper()
	postgres.Hurry(r.DB, "test")
	return r.read(t, "test")
}

// deliver reads and delivers until nothing is left to read, then looks until nothing is left to learn or nothing is learned.
func (r relay) deliver(t *testing.T) {
	t.Helper()
	for rows := r.look(t); len(rows) > 0; rows = r.look(t) {
		require.Equal(t, len(rows), r.settle(t, delivery(rows)...))
	}
	for range 3 {
		require.Empty(t, r.look(t))
	}
}

func delivery(rows []localtable.Row) []localtable.Result {
	results := make([]localtable.Result, len(rows))
	for i, row := range rows {
		results[i] = localtable.Result{Row: row, Fate: localtable.Delivered}
	}
	return results
}

func (r relay) write(t *testing.T, count int) {
	t.Helper()
	fill(t, r.bundle, count, count, "k")
}

// low returns the lowest bound of all lanes, and 0 when one has none.
func (r relay) low() int64 {
	lanes, lows, _ := postgres.Bounds(r.DB, "test")
	if len(lanes) < localtable.Lanes {
		return 0
	}
	return slices.Min(lows)
}

func (r relay) last(t *testing.T) int64 {
	t.Helper()
	return query[int64](t, r.bundle, `SELECT last_value FROM txmsg_ready_seq_seq`)
}

// insert writes a row in a transaction and returns its seq.
func insert(t *testing.T, tx pgx.Tx, id string) (seq int64) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(), `INSERT INTO txmsg_ready (lane, destination, topic, id, key, body)
		VALUES (hashtext($1) & 63, 'test', 'orders', $1::text, $1::text, '') RETURNING seq`, id).Scan(&seq))
	return seq
}

func ids(rows []localtable.Row) (ids []string) {
	for _, row := range rows {
		ids = append(ids, row.Message.ID)
	}
	return ids
}

func begin(t *testing.T, b bundle, options pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := b.pool.BeginTx(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func TestHorizon(t *testing.T) {
	t.Run("reaches the last row that was given a seq, and then nothing is looked for", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.deliver(t)
		require.Zero(t, r.low(), "no seq was given")
		r.write(t, 300)
		r.deliver(t)
		require.Equal(t, r.last(t), r.low())
		postgres.Hurry(r.DB, "test")
		_, sight := postgres.NextRead(r.DB, "test", r.lanes, 100)
		require.False(t, sight, "an idle relay looks on")
		r.write(t, 1)
		require.Len(t, r.look(t), 1)
		require.Less(t, r.low(), r.last(t), "the row was not delivered")
	})

	t.Run("is not looked for more than once a second", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.look(t)
		r.write(t, 10)
		r.read(t, "test")
		_, sight := postgres.NextRead(r.DB, "test", r.lanes, 100)
		require.False(t, sight)
		require.Eventually(t, func() bool {
			r.read(t, "test")
			_, sight := postgres.NextRead(r.DB, "test", r.lanes, 100)
			return sight
		}, 10*time.Second, 50*time.Millisecond)
	})

	t.Run("goes with what is settled, and with reads that take no sight", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.write(t, 90)
		rows, last := r.look(t), r.last(t)
		require.Equal(t, rows[0].Seq-1, r.low())
		lost := relay{r.bundle, slices.Clone(r.lanes)}
		for i := range lost.lanes {
			lost.lanes[i].Epoch--
		}
		require.Zero(t, lost.settle(t, delivery(rows)...))
		require.Equal(t, rows[0].Seq-1, r.low(), "the lanes were lost")
		r.settle(t, delivery(rows[1:])...)
		require.Equal(t, rows[0].Seq-1, r.low(), "the first row was not settled")
		r.settle(t, delivery(r.read(t, "test"))...)
		require.Equal(t, rows[0].Seq, r.low(), "nothing was read of its lane behind it")
		require.Empty(t, r.read(t, "test"))
		require.Equal(t, last, r.low())
		r.write(t, 90)
		require.Equal(t, 90, r.settle(t, delivery(r.read(t, "test"))...))
		require.Empty(t, r.read(t, "test"))
		require.Equal(t, last, r.low(), "no sight was taken since these rows were written")
	})

	t.Run("C18 does not pass a transaction that took its seq early and commits late", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.write(t, 10)
		r.deliver(t)
		early := begin(t, r.bundle, pgx.TxOptions{})
		seq := insert(t, early, "early")
		r.write(t, 300)
		r.deliver(t)
		require.Less(t, r.low(), seq)
		require.NoError(t, early.Commit(t.Context()))
		require.Equal(t, []string{"early"}, ids(r.look(t)))
		r.deliver(t)
		require.Equal(t, r.last(t), r.low())
	})

	t.Run("C18 does not pass one that has no transaction id yet", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM gate FOR SHARE; RETURN NEW; END $$;
			CREATE TABLE gate (); INSERT INTO gate DEFAULT VALUES;
			CREATE TRIGGER pause BEFORE INSERT ON txmsg_ready FOR EACH ROW WHEN (NEW.key = 'early') EXECUTE FUNCTION pause()`)
		r.write(t, 40) // a session that logs a value of the sequence gets an id: not the next one
		gate := begin(t, r.bundle, pgx.TxOptions{})
		_, err := gate.Exec(t.Context(), `LOCK TABLE gate`)
		require.NoError(t, err)
		inserted := make(chan error, 1)
		go func() {
			_, err := r.pool.Exec(context.Background(), `INSERT INTO txmsg_ready (lane, destination, topic, id, key, body) VALUES (hashtext('early') & 63, 'test', 'orders', 'early', 'early', '')`)
			inserted <- err
		}()
		const waiting = `SELECT count(*) FROM pg_locks WHERE relation = 'gate'::regclass AND NOT granted`
		require.Eventually(t, func() bool { return query[int](t, r.bundle, waiting) == 1 }, 10*time.Second, 10*time.Millisecond)
		seq := r.last(t)
		r.write(t, 300)
		r.deliver(t)
		require.Less(t, r.low(), seq)
		require.NoError(t, gate.Rollback(t.Context()))
		require.NoError(t, <-inserted)
		require.Equal(t, []string{"early"}, ids(r.look(t)))
	})

	t.Run("passes a transaction that was rolled back", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		tx := begin(t, r.bundle, pgx.TxOptions{})
		seq := insert(t, tx, "never")
		r.deliver(t)
		require.Less(t, r.low(), seq)
		require.NoError(t, tx.Rollback(t.Context()))
		r.deliver(t)
		require.Equal(t, seq, r.low())
	})

	t.Run("a lane that is reopened is read from its front at once", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		park := func(head string, parked ...string) {
			t.Helper()
			r.exec(t, `INSERT INTO txmsg_message (destination, topic, key, id, body) SELECT 'test', 'orders', 'k', id, '' FROM unnest($1::text[]) id`, append([]string{head}, parked...))
			rows := r.look(t)
			results := []localtable.Result{{Row: rows[0], Fate: localtable.Retry, After: time.Hour}}
			for _, row := range rows[1:] {
				results = append(results, localtable.Result{Row: row, Fate: localtable.Parked})
			}
			require.Equal(t, len(rows), r.settle(t, results...))
			r.write(t, 100)
			r.deliver(t)
			require.Equal(t, r.last(t), r.low())
		}
		park("head", "parked")
		r.exec(t, `UPDATE txmsg_held SET due_at = clock_timestamp() WHERE id = 'head'`)
		r.settle(t, localtable.Result{Row: r.read(t, "test")[0], Fate: localtable.Delivered})
		require.Equal(t, []string{"parked"}, ids(r.read(t, "test")), "a settlement made it ready")
		r.deliver(t)

		park("other head", "swept")
		r.exec(t, `DELETE FROM txmsg_held WHERE id = 'other head'`)
		swept, err := r.Sweep(t.Context(), "first", r.lanes, 10)
		require.NoError(t, err)
		require.Equal(t, 1, swept)
		require.Equal(t, []string{"swept"}, ids(r.read(t, "test")), "a sweep made it ready")
		r.deliver(t)

		park("dead head", "freed")
		r.exec(t, `UPDATE txmsg_held SET state = 'dead', due_at = NULL WHERE id = 'dead head'`)
		changed, err := r.Decide(t.Context(), decision(localtable.VerbSkip, r.held(t, "dead head")))
		require.NoError(t, err)
		require.Len(t, changed, 1)
		require.Equal(t, []string{"freed"}, ids(r.read(t, "test")), "a person made it ready")
		require.Equal(t, []string{"freed"}, ids(r.look(t)))
		require.Less(t, r.low(), r.last(t))
	})

	t.Run("a row that was put in by hand is found in time", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.write(t, 100)
		r.deliver(t)
		for _, seq := range []int64{1, -7} {
			r.exec(t, `INSERT INTO txmsg_ready (seq, lane, destination, topic, id, body) OVERRIDING SYSTEM VALUE VALUES ($1, 0, 'test', 'orders', 'by hand', '')`, seq)
			require.Empty(t, r.read(t, "test"))
			postgres.HurryNet(r.DB, "test")
			require.Equal(t, []string{"by hand"}, ids(r.read(t, "test")))
			require.Equal(t, []string{"by hand"}, ids(r.read(t, "test")), "again, it was not settled")
			r.deliver(t)
			require.Equal(t, r.last(t), r.low())
		}
	})

	t.Run("is not used where sessions are given seqs in stock", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `ALTER SEQUENCE txmsg_ready_seq_seq CACHE 10`)
		r.write(t, 100)
		r.deliver(t)
		require.Zero(t, r.low())
	})

	for name, hold := range map[string]func(t *testing.T, b bundle) pgx.Tx{
		"an old snapshot": func(t *testing.T, b bundle) pgx.Tx {
			tx := begin(t, b, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			_, err := tx.Exec(t.Context(), `SELECT count(*) FROM orders`)
			require.NoError(t, err)
			return tx
		},
		"an old transaction that writes elsewhere": func(t *testing.T, b bundle) pgx.Tx {
			tx := begin(t, b, pgx.TxOptions{})
			_, err := tx.Exec(t.Context(), `INSERT INTO orders (id) VALUES ('old')`)
			require.NoError(t, err)
			return tx
		},
	} {
		t.Run("C65 a read costs as little as ever after 100,000 messages were delivered beside "+name, func(t *testing.T) {
			t.Parallel()
			const delivered = 100_000
			r := lease(t, setup(t))
			r.write(t, 1)
			r.deliver(t)
			cost := func() int {
				args, _ := postgres.NextRead(r.DB, "test", r.lanes, 500)
				return buffers(explain(t, r.bundle, postgres.ReadSQL, args...))
			}
			before := cost()
			old := hold(t, r.bundle)
			fill(t, r.bundle, delivered, 5000, "k")
			for sent := 0; sent < delivered; {
				rows, err := r.Read(t.Context(), "test", r.lanes, 10_000)
				require.NoError(t, err)
				sent += r.settle(t, delivery(rows)...)
			}
			r.exec(t, `VACUUM txmsg_ready`)
			fromFront := buffers(explain(t, r.bundle, postgres.ReadSQL, readArgs(500, false)...))
			r.deliver(t)
			t.Logf("buffers before %d, after %d, from the front %d", before, cost(), fromFront)
			require.Greater(t, fromFront, 10*before, "nothing keeps the entries")
			require.Less(t, cost(), 4*before) // the index has two levels more
			require.NoError(t, old.Rollback(t.Context()))
		})
	}
}

// What is known must be so at every moment, whatever goes on.
func TestHorizonIsTrue(t *testing.T) {
	t.Parallel()
	r := lease(t, setup(t))
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	errs := make(chan error, 8)
	for writer := range cap(errs) {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(writer)))
			for n := 0; ctx.Err() == nil; n++ {
				if err := writeSlowly(r.bundle, random, fmt.Sprint("key", random.IntN(5))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	const falseSQL = `SELECT count(*) FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS b (lane, low, reopened)
		JOIN txmsg_lane l ON l.lane = b.lane AND l.reopened = b.reopened
		JOIN txmsg_ready m ON m.destination = 'test' AND m.lane = b.lane AND m.seq <= b.low`
	random := rand.New(rand.NewPCG(7, 100))
	furthest := int64(0)
	reopened := func() int { return query[int](t, r.bundle, `SELECT sum(reopened) FROM txmsg_lane`) }
	deadline := time.Now().Add(time.Minute)
	for i := 0; (i < 200 || i%10 > 0 || reopened() < 20) && time.Now().Before(deadline); i++ {
		if i%3 == 0 {
			postgres.Hurry(r.DB, "test")
		}
		rows, err := r.Read(t.Context(), "test", r.lanes, []int{4, 100}[i%2])
		require.NoError(t, err)
		var results []localtable.Result
		for _, row := range rows {
			result := localtable.Result{Row: row, Fate: localtable.Delivered, After: 20 * time.Millisecond}
			switch {
			case row.Follower:
				result.Fate = localtable.Parked
			case random.IntN(5) == 0:
				result.Fate = localtable.Retry
			case random.IntN(5) == 0:
				continue
			}
			results = append(results, result)
		}
		r.settle(t, results...)
		lanes, lows, counts := postgres.Bounds(r.DB, "test")
		furthest = max(furthest, slices.Max(append(lows, 0)))
		require.Zero(t, query[int](t, r.bundle, falseSQL, lanes, lows, counts))
	}
	require.Positive(t, furthest)
	require.GreaterOrEqual(t, reopened(), 20)
	stop()
	writers.Wait()
	select {
	case err := <-errs:
		require.NoError(t, err)
	default:
	}
	r.exec(t, `UPDATE txmsg_held SET due_at = clock_timestamp() WHERE state = 'retry'`)
	require.Eventually(t, func() bool {
		r.deliver(t)
		_, err := r.Sweep(t.Context(), "first", r.lanes, 1000)
		require.NoError(t, err)
		return r.count(t, "txmsg_ready")+r.count(t, "txmsg_held") == 0
	}, 30*time.Second, time.Millisecond)
	r.deliver(t)
	require.Equal(t, r.last(t), r.low())
}

// writeSlowly writes rows of a key in one transaction, which it commits or rolls back some time later.
func writeSlowly(b bundle, random *rand.Rand, key string) error {
	ctx := context.Background()
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for range 1 + random.IntN(3) {
		if _, err := tx.Exec(ctx, `INSERT INTO txmsg_message (destination, topic, key, body) VALUES ('test', 'orders', $1, '')`, key); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, random.Float64()/50); err != nil {
			return err
		}
	}
	if random.IntN(4) == 0 {
		return nil
	}
	return tx.Commit(ctx)
}

func TestHorizonOutlivesNoCrash(t *testing.T) {
	t.Parallel()
	server := services.StartPostgres(t, map[string]string{"max_prepared_transactions": "5", "wal_writer_delay": "10s"})
	r := lease(t, setupAt(t, services.Database(t, server.Address()), postgres.Config{}))

	t.Run("nor passes a transaction that is prepared, also when the server restarts in order", func(t *testing.T) {
		tx := begin(t, r.bundle, pgx.TxOptions{})
		seq := insert(t, tx, "early")
		r.write(t, 10)
		r.deliver(t)
		_, err := tx.Exec(t.Context(), `PREPARE TRANSACTION 'early'`)
		require.NoError(t, err)
		r.write(t, 10)
		r.deliver(t)
		require.Less(t, r.low(), seq)
		server.Restart() // in order: what is known outlives it, and the transaction has another name now
		r.pool.Reset()
		r.deliver(t)
		require.Equal(t, 1, r.count(t, "txmsg_incarnation"))
		require.Less(t, r.low(), seq)
		r.exec(t, `COMMIT PREPARED 'early'`)
		require.Equal(t, []string{"early"}, ids(r.look(t)))
		r.deliver(t)
		require.Equal(t, r.last(t), r.low())
	})

	// Settlements do not wait for the disk: the crash brings their rows back, with old seqs.
	r.write(t, 20)
	r.deliver(t)
	require.Equal(t, r.last(t), r.low())
	server.Kill()
	server.Restart()
	r.pool.Reset()
	b := open(t, r.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 2 })
	require.Zero(t, b.count(t, "txmsg_incarnation"))
	t.Logf("%d of 20 rows came back", b.count(t, "txmsg_ready"))
	require.Len(t, r.read(t, "test"), b.count(t, "txmsg_ready"))
	r = lease(t, r.bundle)
	require.Len(t, r.read(t, "test"), b.count(t, "txmsg_ready"))
	r.deliver(t)
	require.Equal(t, r.last(t), r.low())
}

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// relay is a bundle with all lanes leased.
type relay struct {
	bundle
	lanes []localtable.Lane
}

func lease(t *testing.T, b bundle) relay {
	t.Helper()
	lease, err := b.Lease(t.Context(), "first", time.Hour)
	require.NoError(t, err)
	require.Len(t, lease.Lanes, localtable.Lanes)
	return relay{b, lease.Lanes}
}

func (r relay) read(t *testing.T, destination string) []localtable.Row {
	t.Helper()
	rows, err := r.Read(t.Context(), destination, r.lanes, 100)
	require.NoError(t, err)
	return rows
}

func (r relay) settle(t *testing.T, results ...localtable.Result) int {
	t.Helper()
	changed, err := r.Settle(t.Context(), localtable.Settlement{
		Owner: "first", Lanes: r.lanes, Results: results, Archive: true, DeadHolds: true, Unpark: 100, Errors: 3,
	})
	require.NoError(t, err)
	return changed
}

func TestOtherWriters(t *testing.T) {
	t.Run("every column but topic and body has a default", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `INSERT INTO txmsg_message (topic, body) VALUES ('orders', 'ready')`)
		r.exec(t, `INSERT INTO txmsg_held (topic, body, due_at) VALUES ('orders', 'late', clock_timestamp() - interval '1 s')`)
		r.exec(t, `INSERT INTO txmsg_held (topic, body, due_at) VALUES ('orders', 'later', clock_timestamp() + interval '1 h')`)
		rows := r.read(t, "default")
		require.Len(t, rows, 2)
		require.Equal(t, "ready", string(rows[0].Message.Body))
		require.Equal(t, "late", string(rows[1].Message.Body))
		require.True(t, rows[1].Delayed)
		for _, row := range rows {
			require.NoError(t, row.Message.Validate())
			require.NotEmpty(t, row.Message.ID)
		}
	})

	t.Run("share the lane of a key", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		require.NoError(t, r.begin(t).Commit(t.Context(), r.message("ours")...))
		entry := localtable.Entry{Destination: "test", Message: txmsg.Message{ID: "a", Topic: "orders", Key: "k"}}
		require.NoError(t, r.begin(t).Commit(t.Context(), r.Insert([]localtable.Entry{entry, entry})...))
		r.exec(t, `INSERT INTO txmsg_message (destination, topic, key, body) VALUES ('test', 'orders', 'k', 'theirs')`)
		r.exec(t, `INSERT INTO txmsg_held (destination, topic, key, body, due_at) VALUES ('test', 'orders', 'k', 'theirs', clock_timestamp() - interval '1 s')`)
		rows := r.read(t, "test")
		require.Len(t, rows, 5)
		for _, row := range rows {
			require.Equal(t, rows[0].Lane, row.Lane)
		}
	})

	t.Run("without a key have lanes by their ids, whoever writes them", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		lanes := map[string]map[int]bool{}
		for i := range 20 {
			id := fmt.Sprint("id-", i)
			entry := localtable.Entry{Destination: "test", Message: txmsg.Message{ID: id, Topic: "orders"}}
			require.NoError(t, r.begin(t).Commit(t.Context(), r.Insert([]localtable.Entry{entry})...))
			require.NoError(t, r.begin(t).Commit(t.Context(), r.Insert([]localtable.Entry{entry, entry})...))
			r.exec(t, `INSERT INTO txmsg_message (destination, topic, id, body) VALUES ('test', 'orders', $1, '')`, id)
			r.exec(t, `INSERT INTO txmsg_held (destination, topic, id, body, due_at) VALUES ('test', 'orders', $1, '', clock_timestamp() - interval '1 s')`, id)
			lanes[id] = map[int]bool{}
		}
		used := map[int]bool{}
		for _, row := range r.read(t, "test") {
			lanes[row.Message.ID][row.Lane], used[row.Lane] = true, true
		}
		for id, of := range lanes {
			require.Len(t, of, 1, id)
		}
		require.Greater(t, len(used), 10)
	})

	t.Run("are written to the configured schema, whatever the writer's search path", func(t *testing.T) {
		t.Parallel()
		b := open(t, services.Database(t, services.Postgres(t)), postgres.Config{Schema: "messages"})
		require.NoError(t, b.Migrate(t.Context()))
		b.exec(t, `INSERT INTO messages.txmsg_message (topic, body) VALUES ('orders', '')`)
		require.Equal(t, 1, b.count(t, "messages.txmsg_ready"))
	})

	t.Run("that nobody would read, or in no order, are refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, sql := range []string{
			`INSERT INTO txmsg_ready (topic, body) VALUES ('orders', '')`, `INSERT INTO txmsg_ready (lane, topic, body) VALUES (64, 'orders', '')`,
			`INSERT INTO txmsg_message (topic, body, destination) VALUES ('orders', '', NULL)`, `INSERT INTO txmsg_message (topic) VALUES ('orders')`,
			`UPDATE txmsg_message SET key = 'other'`, `DELETE FROM txmsg_message`,
		} {
			_, err := b.pool.Exec(t.Context(), sql)
			require.Error(t, err, sql)
		}
		_, err := b.pool.Exec(t.Context(), `INSERT INTO txmsg_message (topic, body, key) VALUES ('orders', '', NULL)`)
		require.ErrorContains(t, err, `null value in column "key"`)
	})

	t.Run("headers that are no texts do not stop the batch", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `INSERT INTO txmsg_message (topic, body, headers) VALUES
			('orders', '', '{"text": "a", "number": 1.10, "null": null, "object": {"b": [1]}}'), ('orders', '', '["no", "object"]'), ('orders', '', '{}')`)
		rows := r.read(t, "default")
		require.Len(t, rows, 3)
		require.Equal(t, map[string]string{"text": "a", "number": "1.10", "null": "", "object": `{"b": [1]}`}, rows[0].Message.Headers)
		require.Empty(t, rows[1].Message.Headers)
		require.Empty(t, rows[2].Message.Headers)
	})

	t.Run("times that are none stop neither the batch nor the status", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `INSERT INTO txmsg_ready (lane, topic, body, created_at) VALUES (1, 'orders', '', 'infinity'), (2, 'orders', '', '-infinity')`)
		r.exec(t, `INSERT INTO txmsg_held (topic, body, created_at, due_at) VALUES ('orders', '', '-infinity', '-infinity'), ('orders', '', now(), 'infinity')`)
		require.Len(t, r.read(t, "default"), 3)
		_, err := r.Status(t.Context())
		require.NoError(t, err)
		held, err := r.FindHeld(t.Context(), localtable.Filter{}, 0, 10, true)
		require.NoError(t, err)
		require.Len(t, held, 2)
		require.Zero(t, held[0].Due)
		require.Equal(t, 9999, held[1].Due.Year())
	})

	t.Run("keys that no index could hold are refused when they are written", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.pool.Exec(t.Context(), `INSERT INTO txmsg_message (topic, body, key) VALUES ('orders', '', repeat('k', 256))`)
		require.Error(t, err)
		_, err = b.pool.Exec(t.Context(), `INSERT INTO txmsg_message (topic, body, id) VALUES ('orders', '', repeat('i', 129))`)
		require.Error(t, err)
		_, err = b.pool.Exec(t.Context(), `INSERT INTO txmsg_held (topic, body, state, due_at) VALUES ('orders', '', 'raedy', now())`)
		require.Error(t, err)
	})
}

func TestSettle(t *testing.T) {
	t.Run("a broker's words may be no text", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		require.NoError(t, r.begin(t).Commit(t.Context(), r.message("m")...))
		result := localtable.Result{Row: r.read(t, "test")[0], Fate: localtable.Dead, Error: "bad \x00 \xff", Class: "refused"}
		require.Equal(t, 1, r.settle(t, result))
		require.Equal(t, "bad \uFFFD \uFFFD", query[string](t, r.bundle, `SELECT errors->0->>'error' FROM txmsg_held`))
	})

	t.Run("a retry that follows another one is parked, and freed with the rest", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		require.NoError(t, r.begin(t).Commit(t.Context(), r.message("a", "b", "c")...))
		rows := r.read(t, "test")
		retry := func(row localtable.Row, after time.Duration) localtable.Result {
			return localtable.Result{Row: row, Fate: localtable.Retry, After: after}
		}
		require.Equal(t, 2, r.settle(t, retry(rows[0], time.Hour), retry(rows[1], 0)))
		rows = r.read(t, "test")
		require.Len(t, rows, 2)
		require.True(t, rows[0].Follower)
		require.True(t, rows[1].Follower)
		require.Equal(t, 2, r.settle(t, localtable.Result{Row: rows[0], Fate: localtable.Parked}, localtable.Result{Row: rows[1], Fate: localtable.Parked}))
		require.Empty(t, r.read(t, "test"))

		r.exec(t, `UPDATE txmsg_held SET due_at = clock_timestamp() WHERE id = 'a'`)
		require.Equal(t, 1, r.settle(t, localtable.Result{Row: r.read(t, "test")[0], Fate: localtable.Delivered}))
		rows = r.read(t, "test")
		require.Len(t, rows, 2)
		require.Equal(t, []string{"b", "c"}, []string{rows[0].Message.ID, rows[1].Message.ID})
		require.False(t, rows[0].Follower || rows[1].Follower)
		require.Equal(t, 1, rows[0].Attempts, "attempts are kept")
	})

	t.Run("a row that was delivered is not taken for the one that stands there now", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		place := func() pgtype.TID { return query[pgtype.TID](t, r.bundle, `SELECT ctid FROM txmsg_ready`) }
		require.NoError(t, r.begin(t).Commit(t.Context(), r.message("a")...))
		late, was := delivery(r.read(t, "test")), place()
		require.Equal(t, 1, r.settle(t, late...))
		require.Eventually(t, func() bool { // while another session has an old snapshot, the place is not free
			r.exec(t, `DELETE FROM txmsg_ready`)
			r.exec(t, `VACUUM txmsg_ready`)
			require.NoError(t, r.begin(t).Commit(t.Context(), r.message("b")...))
			return place() == was
		}, 30*time.Second, 50*time.Millisecond)
		require.Zero(t, r.settle(t, late...))

		r.exec(t, `DELETE FROM txmsg_ready`)
		r.exec(t, `INSERT INTO txmsg_ready (seq, lane, revision, destination, topic, id, body) OVERRIDING SYSTEM VALUE VALUES ($1, hashtext('a') & 63, 2, 'test', 'orders', 'a', '')`, late[0].Row.Seq)
		late[0].Row.Place = r.read(t, "test")[0].Place
		require.Zero(t, r.settle(t, late...), "it was parked and is ready again")
		require.Equal(t, []string{"a"}, ids(r.read(t, "test")))
	})

	t.Run("a row that was moved since it was read stays, and is sent again", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		require.NoError(t, r.begin(t).Commit(t.Context(), r.message("a", "b")...))
		rows := r.read(t, "test")
		r.exec(t, `UPDATE txmsg_ready SET body = 'moved' WHERE id = 'a'`)
		require.Equal(t, 1, r.settle(t, delivery(rows)...))
		require.Equal(t, []string{"a"}, ids(r.read(t, "test")))
	})

	t.Run("one whose reply was lost does not count twice when it is sent again", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		require.NoError(t, r.begin(t).Commit(t.Context(), r.message("m")...))
		for attempt := range 3 {
			result := localtable.Result{Row: r.read(t, "test")[0], Fate: localtable.Retry, Error: "refused"}
			require.Equal(t, attempt, result.Row.Attempts)
			require.Equal(t, 1, r.settle(t, result))
			for _, fate := range []localtable.Fate{localtable.Retry, localtable.Dead, localtable.Delivered} {
				result.Fate = fate
				require.Zero(t, r.settle(t, result))
			}
		}
	})

	// The one that waits for the lane must see what the other did: else it would park a row behind a head that is gone.
	t.Run("two of a lane run one after the other", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		for i := range 100 {
			head, follower := fmt.Sprint("head", i), fmt.Sprint("follower", i)
			require.NoError(t, r.begin(t).Commit(t.Context(), r.message(head, follower)...))
			rows := r.read(t, "test")
			require.Len(t, rows, 2)
			require.Equal(t, 1, r.settle(t, localtable.Result{Row: rows[0], Fate: localtable.Retry}))
			again := r.read(t, "test")
			require.Len(t, again, 2)
			var group sync.WaitGroup
			errs := make([]error, 2)
			for j, result := range []localtable.Result{{Row: again[0], Fate: localtable.Delivered}, {Row: again[1], Fate: localtable.Parked}} {
				group.Go(func() {
					_, errs[j] = r.Settle(context.Background(), localtable.Settlement{
						Owner: "first", Lanes: r.lanes, Results: []localtable.Result{result}, Unpark: 10,
					})
				})
			}
			group.Wait()
			require.NoError(t, errs[0])
			require.NoError(t, errs[1])
			left := r.read(t, "test")
			require.Len(t, left, 1, "round %d: parked behind nothing", i)
			require.False(t, left[0].Follower)
			require.Equal(t, 1, r.settle(t, localtable.Result{Row: left[0], Fate: localtable.Delivered}))
		}
	})

	t.Run("lanes are not taken from an owner that is just renewing", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `UPDATE txmsg_instance SET expires_at = clock_timestamp()`)
		renewal, err := r.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = renewal.Exec(t.Context(), `UPDATE txmsg_instance SET expires_at = clock_timestamp() + interval '1 h'`)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		second, err := r.Lease(ctx, "second", time.Hour)
		require.NoError(t, err)
		require.Empty(t, second.Lanes)
		require.NoError(t, renewal.Commit(t.Context()))
		first, err := r.Lease(ctx, "first", time.Hour)
		require.NoError(t, err)
		require.Len(t, first.Lanes, localtable.Lanes)
	})

	t.Run("a session that is stuck in one does not keep others from renewing", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		stuck, err := r.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = stuck.Exec(t.Context(), `SELECT FROM txmsg_lane WHERE lane < 10 FOR UPDATE`)
		require.NoError(t, err)
		r.exec(t, `UPDATE txmsg_instance SET expires_at = clock_timestamp()`)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		second, err := r.Lease(ctx, "second", time.Hour)
		require.NoError(t, err)
		require.Len(t, second.Lanes, localtable.Lanes-10)
		require.NoError(t, stuck.Rollback(t.Context()))
		second, err = r.Lease(ctx, "second", time.Hour)
		require.NoError(t, err)
		require.Len(t, second.Lanes, localtable.Lanes)
		first, err := r.Lease(ctx, "first", time.Hour)
		require.NoError(t, err)
		require.Empty(t, first.Lanes)
	})
}

func TestPruneMessages(t *testing.T) {
	partitions := func(t *testing.T, b bundle) []string {
		return query[[]string](t, b, `SELECT coalesce(array_agg(inhrelid::regclass::text ORDER BY inhrelid::regclass::text), '{}') FROM pg_inherits WHERE inhparent = 'txmsg_delivered'::regclass`)
	}
	day := func(t *testing.T, b bundle, ahead int) string {
		return query[string](t, b, `SELECT 'txmsg_delivered_' || to_char(clock_timestamp() AT TIME ZONE 'UTC' + $1 * interval '1 day', 'YYYYMMDD')`, ahead)
	}
	deliver := func(t *testing.T, b bundle, ago string, count int) {
		b.exec(t, `INSERT INTO txmsg_delivered (seq, created_at, delivered_at, attempts, destination, id, topic, key, type, body)
			SELECT i, clock_timestamp(), clock_timestamp() - $1::text::interval, 0, 'test', i::text, 'orders', '', '', 'x' FROM generate_series(1, $2::int) i`, ago, count)
	}
	prune := func(t *testing.T, b bundle, retention time.Duration, limit int) int {
		t.Helper()
		pruned, err := b.PruneMessages(t.Context(), retention, limit)
		require.NoError(t, err)
		return pruned
	}

	t.Run("makes the partitions of the days to come, and drops those that have expired", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `DROP TABLE `+day(t, b, 1))
		old := day(t, b, -3)
		b.exec(t, fmt.Sprintf(`CREATE TABLE %s PARTITION OF txmsg_delivered FOR VALUES FROM ('%s') TO ('%s')`, old,
			query[string](t, b, `SELECT (date_trunc('day', clock_timestamp(), 'UTC') - interval '3 days')::text`),
			query[string](t, b, `SELECT (date_trunc('day', clock_timestamp(), 'UTC') - interval '2 days')::text`)))
		deliver(t, b, "3 days", 10)
		deliver(t, b, "0", 10)
		require.Zero(t, prune(t, b, 72*time.Hour, 1000), "the day's last row is not old enough")
		require.Contains(t, partitions(t, b), old)
		require.Contains(t, partitions(t, b), day(t, b, 1))
		require.Contains(t, partitions(t, b), day(t, b, 2))
		require.Contains(t, query[[]string](t, b, `SELECT reloptions FROM pg_class WHERE oid = $1::text::regclass`, day(t, b, 2)), "autovacuum_vacuum_insert_threshold=100000")
		require.Equal(t, 10, prune(t, b, 24*time.Hour, 1000))
		require.NotContains(t, partitions(t, b), old)
		require.Equal(t, 10, b.count(t, "txmsg_delivered"))
	})

	t.Run("logs what the configuration says, and lets be what is there", func(t *testing.T) {
		t.Parallel()
		persistence := func(b bundle, ahead int) string {
			return query[string](t, b, `SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass`, day(t, b, ahead))
		}
		const logged, unlogged = "p", "u"
		b := setup(t)
		require.Equal(t, unlogged, persistence(b, 0))
		require.Equal(t, unlogged, persistence(b, 1))
		b.exec(t, `DROP TABLE `+day(t, b, 2))
		b = open(t, b.dsn, postgres.Config{LoggedArchive: true})
		prune(t, b, 24*time.Hour, 1000)
		require.Equal(t, unlogged, persistence(b, 1))
		require.Equal(t, logged, persistence(b, 2))
	})

	t.Run("C34 of delivered rows alone, and by their time of delivery", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := lease(t, b)
		require.NoError(t, b.begin(t).Commit(t.Context(), b.message("unsent", "dead", "sent")...))
		rows := r.read(t, "test")
		r.settle(t, localtable.Result{Row: rows[1], Fate: localtable.Dead}, localtable.Result{Row: rows[2], Fate: localtable.Delivered})
		b.exec(t, `UPDATE txmsg_ready SET created_at = created_at - interval '2 h'`)
		b.exec(t, `UPDATE txmsg_held SET created_at = created_at - interval '2 h'`)
		b.exec(t, `UPDATE txmsg_delivered SET created_at = created_at - interval '2 h'`)
		deliver(t, b, "2 h", 7)
		require.Equal(t, 3, prune(t, b, time.Hour, 3))
		require.Equal(t, 4, prune(t, b, time.Hour, 1000))
		require.Zero(t, prune(t, b, time.Hour, 1000))
		require.Equal(t, 1, b.count(t, "txmsg_ready"))
		require.Equal(t, 1, b.count(t, "txmsg_held"))
		require.Equal(t, 1, b.count(t, "txmsg_delivered"))
	})

	t.Run("rows that found no partition are kept and removed all the same", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `DROP TABLE `+day(t, b, 0))
		deliver(t, b, "0", 5)
		require.Zero(t, prune(t, b, 24*time.Hour, 1000))
		require.Equal(t, 5, b.count(t, "txmsg_delivered_default"))
		b.exec(t, `UPDATE txmsg_delivered SET delivered_at = delivered_at - interval '2 days'`)
		require.Equal(t, 5, prune(t, b, 24*time.Hour, 1000))
	})

	t.Run("does not wait for a reader, nor make writers wait behind it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `DROP TABLE `+day(t, b, 2))
		reader, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = reader.Exec(t.Context(), `SELECT count(*) FROM txmsg_delivered`)
		require.NoError(t, err)
		var waits []time.Duration // one may be long by the machine's doing
		for len(waits) < 3 && (len(waits) == 0 || waits[len(waits)-1] >= 5*time.Second) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			start := time.Now()
			_, err := b.PruneMessages(ctx, 24*time.Hour, 1000)
			waits = append(waits, time.Since(start))
			require.NoError(t, errors.Join(err, ctx.Err()), "it waits for the reader")
			cancel()
		}
		require.Less(t, slices.Min(waits), 5*time.Second)
		require.NotContains(t, partitions(t, b), day(t, b, 2))
		require.NoError(t, reader.Rollback(t.Context()))
		prune(t, b, 24*time.Hour, 1000)
		require.Contains(t, partitions(t, b), day(t, b, 2))
	})

	t.Run("by several at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(t, `DROP TABLE `+day(t, b, 1)+`, `+day(t, b, 2))
		deliver(t, b, "1 h", 1000)
		var group sync.WaitGroup
		pruned, errs := make([]int, 4), make([]error, 4)
		for i := range pruned {
			group.Go(func() { pruned[i], errs[i] = b.PruneMessages(context.Background(), time.Minute, 400) })
		}
		group.Wait()
		total := 0
		for i := range pruned {
			require.NoError(t, errs[i])
			total += pruned[i]
		}
		require.Equal(t, total, 1000-b.count(t, "txmsg_delivered"))
		require.Contains(t, partitions(t, b), day(t, b, 2))
	})
}

func TestInbox(t *testing.T) {
	t.Run("ids that only another producer can have made", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		long := make([]byte, 10_000)
		for i := range long {
			long[i] = byte('a' + i*i%23)
		}
		for _, id := range []string{string(long), "nul\x00", "broken\xff", "broken\xfe"} {
			for _, want := range []bool{true, false} {
				err := b.transact(t.Context(), func(ctx context.Context, tx pgx.Tx, _ txmsg.Publisher) error {
					first, err := b.Mark(ctx, tx, "payments", id)
					require.Equal(t, want, first)
					return err
				})
				require.NoError(t, err)
			}
		}
	})
}

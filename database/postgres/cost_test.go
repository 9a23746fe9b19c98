package postgres_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
)

// node is a node of an executed plan.
type node struct {
	Type      string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	Loops     int    `json:"Actual Loops"`
	Hit       int    `json:"Shared Hit Blocks"`
	Read      int    `json:"Shared Read Blocks"`
	Filtered  int    `json:"Rows Removed by Filter"`
	Condition string `json:"Index Cond"`
	Plans     []node `json:"Plans"`
}

func (n node) each(f func(node)) {
	f(n)
	for _, child := range n.Plans {
		child.each(f)
	}
}

// explain runs sql as the store does and returns the plan.
func explain(t *testing.T, b bundle, sql string, args ...any) node {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	_, err = tx.Exec(t.Context(), postgres.PlanSQL)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `PREPARE explained AS `+sql) // explained itself, it would be planned for its arguments
	require.NoError(t, err)
	places := make([]string, len(args))
	for i := range args {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	var text string
	require.NoError(t, tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained(`+strings.Join(places, ", ")+`)`,
		append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text))
	_, err = tx.Exec(t.Context(), `DEALLOCATE explained`)
	require.NoError(t, err)
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal([]byte(text), &plans))
	plans[0].Plan.each(func(n node) {
		if n.Relation == "txmsg_ready" || n.Relation == "txmsg_held" {
			require.Contains(t, []string{"Index Scan", "Index Only Scan", "Tid Scan", "ModifyTable"}, n.Type, "%s of %s", n.Type, n.Relation)
			require.Zero(t, n.Filtered, "rows were read in vain by %s: %s", n.Index, n.Condition)
		}
	})
	return plans[0].Plan
}

func buffers(plan node) int { return plan.Hit + plan.Read }

// explainRead reads a batch of 500 rows as a relay that holds all lanes, after a batch that was full.
func explainRead(t *testing.T, b bundle) node {
	t.Helper()
	return explain(t, b, postgres.ReadSQL, readArgs(8, true)...)
}

// readArgs are those of a read of all lanes from their very front.
func readArgs(front int, deep bool) []any {
	return []any{"test", slices.Repeat([]int64{math.MinInt64}, localtable.Lanes), 500, front, deep, make([]int64, localtable.Lanes), nil, 0}
}

// fill writes count rows of the keys key0 and so on, so many of them.
func fill(t *testing.T, b bundle, count, keys int, key string) {
	t.Helper()
	b.exec(t, `INSERT INTO txmsg_message (destination, topic, key, body)
		SELECT 'test', 'orders', $3 || (i % $2), decode(repeat('ab', 300), 'hex') FROM generate_series(1, $1) i`, count, keys, key)
}

// hold does so in a state in which rows are held.
func hold(t *testing.T, b bundle, count, keys int, key, state string) {
	t.Helper()
	b.exec(t, `INSERT INTO txmsg_held (destination, topic, key, body, state, due_at, delayed, holds)
		SELECT 'test', 'orders', $4 || (i % $2), decode(repeat('ab', 300), 'hex'), $3, clock_timestamp() + interval '1 day', $3 = 'waiting', $3 IN ('retry', 'dead')
		FROM generate_series(1, $1) i`, count, keys, state, key)
}

// The planner's statistics are those of a table that was empty: a backlog grows faster than they are renewed.
func TestReadCost(t *testing.T) {
	const backlog = 100_000
	t.Run("C65 does not depend on the length of the backlog", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		fill(t, b, 1000, 1000, "k")
		b.exec(t, `VACUUM ANALYZE txmsg_ready, txmsg_held`)
		small := buffers(explainRead(t, b))
		fill(t, b, backlog, 5000, "k")
		for _, analyze := range []bool{false, true} {
			if analyze {
				b.exec(t, `VACUUM ANALYZE txmsg_ready, txmsg_held`)
			}
			large := buffers(explainRead(t, b))
			t.Logf("buffers with 1000 rows %d, with %d rows %d", small, backlog, large)
			require.Less(t, large, 2*small)
		}
	})

	t.Run("of few rows is one look at each lane", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		fill(t, b, 20, 20, "k")
		b.exec(t, `VACUUM ANALYZE txmsg_ready, txmsg_held`)
		few := func() int { return buffers(explain(t, b, postgres.ReadSQL, readArgs(500, false)...)) }
		before := few()
		hold(t, b, 1000, 1000, "other", "dead")
		t.Logf("buffers %d, with dead rows of other keys %d", before, few())
		require.Less(t, before, 3*localtable.Lanes)
		require.Less(t, few(), before+20*6)
	})

	t.Run("C65 does not depend on rows that wait, are parked or dead, or were delivered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		fill(t, b, 1000, 1000, "k")
		b.exec(t, `VACUUM ANALYZE txmsg_ready, txmsg_held`)
		before := buffers(explainRead(t, b))
		for _, state := range []string{"waiting", "parked", "dead", "retry"} {
			hold(t, b, backlog/4, 1000, "k", state)
		}
		b.exec(t, `INSERT INTO txmsg_delivered (seq, created_at, attempts, destination, id, topic, key, type, body)
			SELECT i, clock_timestamp(), 0, 'test', i::text, 'orders', '', '', 'x' FROM generate_series(1, $1::int) i`, backlog)
		after := buffers(explainRead(t, b))
		t.Logf("buffers before %d, after %d", before, after)
		require.Less(t, after, before+6*1000, "a few looks at each row's key") // two small indexes of three levels
	})

	t.Run("C67 does not depend on the rows of a stuck key", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		fill(t, b, 1000, 1000, "k")
		hold(t, b, 1, 1, "stuck", "retry")
		hold(t, b, 1000, 1, "stuck", "parked")
		b.exec(t, `VACUUM ANALYZE txmsg_ready, txmsg_held`)
		small := buffers(explainRead(t, b))
		hold(t, b, backlog, 1, "stuck", "parked")
		large := buffers(explainRead(t, b))
		t.Logf("buffers with 1000 rows behind the head %d, with %d rows %d", small, backlog, large)
		require.Less(t, large, 2*small)

		// Nor does the question whether to park: a hundred new rows of the stuck key, in front of all the others.
		b.exec(t, `INSERT INTO txmsg_message (destination, topic, key, body) SELECT 'test', 'orders', 'stuck0', 'x' FROM generate_series(1, 100)`)
		cost := buffers(explainPark(t, b))
		t.Logf("buffers to park 100 rows %d", cost)
		require.Less(t, cost, 100*40)

		// Nor does a sweep, which finds nothing to free.
		cost = buffers(explain(t, b, postgres.SweepSQL, sweeping(t, b)...))
		t.Logf("buffers to sweep %d", cost)
		require.Less(t, cost, 1000)
	})

	// The planner knows how few rows there are, and that all are of one key: the plan must be the one for many. They were written
	// before those that are read, so that a wrong index finds them.
	for _, few := range []int{1, 10, 100, 1000, 10_000} {
		t.Run(fmt.Sprintf("C67 does not depend on what the planner knows of %d rows of a stuck key", few), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			hold(t, b, 1, 1, "stuck", "retry")
			hold(t, b, few, 1, "stuck", "parked")
			fill(t, b, 1000, 1000, "k")
			b.exec(t, `ANALYZE txmsg_ready, txmsg_held`)
			t.Logf("buffers with %d rows behind the head %d", few, buffers(explainRead(t, b)))
			b.exec(t, `INSERT INTO txmsg_message (destination, topic, key, body) SELECT 'test', 'orders', 'stuck0', 'x' FROM generate_series(1, 100)`)
			explainPark(t, b)
			explain(t, b, postgres.SweepSQL, sweeping(t, b)...)
		})
	}

	t.Run("C65 a settlement looks at its own rows only", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		fill(t, b, 100, 100, "k")
		b.exec(t, `VACUUM ANALYZE txmsg_ready, txmsg_held`)
		fill(t, b, backlog, 5000, "k")
		cost := buffers(explain(t, b, postgres.DeleteSQL, delivering(t, b, 500)...))
		t.Logf("buffers to delete 500 rows %d", cost)
		require.Less(t, cost, 500*12)
	})

	t.Run("C65 a settlement looks at its own rows only, also where the planner has seen none but dead ones", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 2 {
			b.exec(t, `DELETE FROM txmsg_ready`)
			b.exec(t, `DELETE FROM txmsg_held`)
			b.exec(t, `ANALYZE txmsg_ready, txmsg_held`)
			fill(t, b, backlog/10, 5000, "k")
			hold(t, b, backlog/10, 1000, "free", "parked")
			hold(t, b, backlog/10, 1000, "dead", "dead")
		}
		for name, sql := range map[string]string{"delete": postgres.DeleteSQL, "archive": postgres.ArchiveSQL} {
			cost := buffers(explain(t, b, sql, delivering(t, b, 500)...))
			t.Logf("buffers to %s 500 rows %d", name, cost)
			require.Less(t, cost, 500*20)
		}
		cost := buffers(explain(t, b, postgres.SweepSQL, sweeping(t, b)...))
		t.Logf("buffers to sweep 1000 rows %d", cost)
		require.Less(t, cost, 1000*40)
		seqs := query[[]int64](t, b, `SELECT array_agg(seq) FROM (SELECT seq FROM txmsg_held WHERE state = 'dead' LIMIT 500) d`)
		cost = buffers(explain(t, b, postgres.SkipSQL, seqs, make([]int64, len(seqs)), "who", "why"))
		t.Logf("buffers to skip 500 rows %d", cost)
		require.Less(t, cost, 500*20)
	})
}

func TestFindCost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold(t, b, 20_000, 1000, "k", "parked")
	hold(t, b, 20_000, 1000, "k", "dead")
	after := query[int64](t, b, `SELECT max(seq) - 500 FROM txmsg_held`)
	for _, analyze := range []bool{false, true} {
		if analyze {
			b.exec(t, `VACUUM ANALYZE txmsg_held`)
		}
		cost := buffers(explain(t, b, postgres.FindDeadSQL(), after))
		t.Logf("buffers of the last page of 20,000 dead rows %d", cost)
		require.Less(t, cost, 600)
	}
}

// explainPark parks what is ready of the stuck key.
func explainPark(t *testing.T, b bundle) node {
	t.Helper()
	return explain(t, b, postgres.ParkSQL, settling(t, b, `WHERE key = 'stuck0'`)...)
}

// settling returns the parameters of a settlement that parks the rows that where chooses.
func settling(t *testing.T, b bundle, where string) []any {
	t.Helper()
	args := sweeping(t, b)
	rows, err := b.pool.Query(t.Context(), `SELECT lane, (SELECT epoch FROM txmsg_lane l WHERE l.lane = m.lane), destination, seq, revision
		FROM txmsg_ready m `+where)
	require.NoError(t, err)
	var lanes []int16
	var epochs, seqs, revisions []int64
	var destinations []string
	var lane int16
	var epoch, seq, revision int64
	var destination string
	_, err = pgx.ForEachRow(rows, []any{&lane, &epoch, &destination, &seq, &revision}, func() error {
		lanes, epochs, seqs, revisions = append(lanes, lane), append(epochs, epoch), append(seqs, seq), append(revisions, revision)
		destinations = append(destinations, destination)
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, lanes)
	return []any{args[0], lanes, epochs, destinations, seqs, revisions}
}

// delivering returns the parameters of a settlement of the first rows as delivered.
func delivering(t *testing.T, b bundle, count int) []any {
	t.Helper()
	args := sweeping(t, b)
	var places []pgtype.TID
	var seqs []int64
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT array_agg(ctid), array_agg(seq) FROM (SELECT ctid, seq FROM txmsg_ready ORDER BY seq LIMIT $1) m`, count).Scan(&places, &seqs))
	require.Len(t, seqs, count)
	return append(args[:3], places, seqs, make([]int64, count))
}

// sweeping returns the parameters of a sweep of all lanes.
func sweeping(t *testing.T, b bundle) []any {
	t.Helper()
	lease, err := b.Lease(t.Context(), "first", 1<<40)
	require.NoError(t, err)
	var numbers []int16
	var epochs []int64
	for _, lane := range lease.Lanes {
		numbers, epochs = append(numbers, int16(lane.Number)), append(epochs, lane.Epoch)
	}
	return []any{"first", numbers, epochs, 1000}
}

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
)

// kill writes a message, lets it die and hold its key, and returns it.
func (r relay) kill(t *testing.T, id string) localtable.Held {
	t.Helper()
	require.NoError(t, r.begin(t).Commit(t.Context(), r.message(id)...))
	require.Equal(t, 1, r.settle(t, localtable.Result{Row: r.read(t, "test")[0], Fate: localtable.Dead, Error: "no", Class: "refused"}))
	return r.held(t, id)
}

func (r relay) held(t *testing.T, id string) localtable.Held {
	t.Helper()
	rows, err := r.FindHeld(t.Context(), localtable.Filter{IDs: []string{id}}, 0, 10, true)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[0]
}

func decision(verb localtable.Verb, row localtable.Held) localtable.Decision {
	return localtable.Decision{Verb: verb, Reason: localtable.Reason{Who: "ann", Why: "why"}, Refs: []localtable.Ref{row.Ref()}, Unpark: 10}
}

func TestDecide(t *testing.T) {
	verbs := []localtable.Verb{localtable.VerbRetry, localtable.VerbSkip, localtable.VerbRelease}

	// Both have been on their way at once: what the settlement parks behind the head must not stay there.
	for _, verb := range verbs[1:] {
		t.Run("C22 waits for a settlement of the lane and sees what it parked: "+string(verb), func(t *testing.T) {
			t.Parallel()
			r := lease(t, setup(t))
			head := r.kill(t, "a")
			require.NoError(t, r.begin(t).Commit(t.Context(), r.message("b")...))
			settlement, err := r.pool.Begin(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { _ = settlement.Rollback(context.Background()) })
			_, err = settlement.Exec(t.Context(), `SELECT FROM txmsg_lane FOR NO KEY UPDATE`)
			require.NoError(t, err)
			decided := make(chan []localtable.Ref, 1)
			go func() {
				changed, _ := r.Decide(t.Context(), decision(verb, head))
				decided <- changed
			}()
			r.awaitLockWait(t, settlement)
			_, err = settlement.Exec(t.Context(), `WITH gone AS (DELETE FROM txmsg_ready RETURNING *)
				INSERT INTO txmsg_held (seq, state, delayed, destination, id, topic, key, body)
				SELECT seq, 'parked', false, destination, id, topic, key, body FROM gone`)
			require.NoError(t, err)
			require.NoError(t, settlement.Commit(t.Context()))
			require.Equal(t, []localtable.Ref{head.Ref()}, <-decided)
			rows := r.read(t, "test")
			require.Len(t, rows, 1)
			require.Equal(t, "b", rows[0].Message.ID)
			require.False(t, rows[0].Follower)
		})
	}

	for _, verb := range verbs {
		t.Run("changes nothing when the audit cannot be written: "+string(verb), func(t *testing.T) {
			t.Parallel()
			r := lease(t, setup(t))
			head := r.kill(t, "a")
			r.exec(t, `ALTER TABLE txmsg_audit ADD CHECK (who <> 'ann')`)
			_, err := r.Decide(t.Context(), decision(verb, head))
			require.Error(t, err)
			require.Equal(t, head, r.held(t, "a"))
			require.Zero(t, r.count(t, "txmsg_audit"))
			r.requireIdle(t)
		})

		t.Run("audits nothing when the change is rolled back: "+string(verb), func(t *testing.T) {
			t.Parallel()
			r := lease(t, setup(t))
			head := r.kill(t, "a")
			r.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$`)
			r.exec(t, `CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE OR DELETE ON txmsg_held DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
			_, err := r.Decide(t.Context(), decision(verb, head))
			require.Error(t, err)
			require.Equal(t, head, r.held(t, "a"))
			require.Zero(t, r.count(t, "txmsg_audit"))
			r.requireIdle(t)
		})
	}

	t.Run("commits to the disk, on a connection that has settled too", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := lease(t, open(t, b.dsn, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 1 }))
		watchCommits(t, b)
		head := r.kill(t, "a")
		require.Equal(t, []string{"off"}, b.durability(t, "txmsg_held INSERT"))
		_, err := r.Decide(t.Context(), decision(localtable.VerbSkip, head))
		require.NoError(t, err)
		require.Equal(t, []string{"on"}, b.durability(t, "txmsg_held DELETE"))
	})

	t.Run("shows a history that another program wrote", func(t *testing.T) {
		t.Parallel()
		r := lease(t, setup(t))
		r.exec(t, `INSERT INTO txmsg_held (id, topic, body, state, errors) VALUES ('odd', 'orders', '', 'dead', '{"my": "own"}')`)
		require.Equal(t, []localtable.Failure{{Error: `{"my": "own"}`}}, r.held(t, "odd").Errors)
	})
}

// awaitLockWait waits until a session waits for a lock of tx's.
func (r relay) awaitLockWait(t *testing.T, tx pgx.Tx) {
	t.Helper()
	pid := tx.Conn().PgConn().PID()
	require.Eventually(t, func() bool {
		return query[bool](t, r.bundle, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`, int32(pid))
	}, 10*time.Second, 20*time.Millisecond)
}

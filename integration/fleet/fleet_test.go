package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
)

func TestFleet(t *testing.T) {
	size, seed := chosenSize(t), chosenSeed(t)
	fmt.Printf("fleet: seed %d\n", seed)
	began := time.Now()
	dsn := services.Schema(t, services.Postgres(t))
	server := services.StartKafka(t, nil)
	name := topic.Kafka(server.Address()).Create(t)
	pool, db := open(t, dsn, size)

	told := &reports{refused: map[string]int{}, passed: map[string]bool{}}
	again := func() *instance {
		return start(t, plan{Database: dsn, Broker: server.Address(), Seed: seed, Lease: size.lease}, told)
	}
	c := &chaos{t: t, size: size, random: chance(seed, ofChaos), broker: server, again: again}
	defer func() { // before the relays are killed
		if t.Failed() {
			c.explain(pool)
		}
	}()
	for range size.relays {
		c.relays = append(c.relays, again())
	}
	w, written := write(t, db, server.Address(), name, size, seed)
	c.run(written)
	select {
	case <-written:
	case <-time.After(patience):
		require.Fail(t, "the writers did not come to an end")
	}
	require.NoError(t, w.failed, "a write")
	awaitSent(t, db, c.relays)
	for _, r := range c.relays {
		r.end(t)
	}

	e := &evidence{seed: seed, records: readTopic(t, server.Address(), name), refused: told.refused, passed: told.passed}
	readTables(t, pool, e)
	v := e.judge(t)
	fmt.Printf("fleet: %5s %6s %6s %8s %9s %11s %9s %5s %10s %7s\n", "kills", "short", "long", "restarts", "committed", "rolled back", "delivered", "dead", "duplicates", "seconds")
	fmt.Printf("fleet: %5d %6d %6d %8d %9d %11d %9d %5d %10d %7.0f\n", c.kills, c.short, c.long, c.restarts, v.committed, w.rolledBack.Load(), v.delivered, v.dead, v.duplicates, time.Since(began).Seconds())
	fmt.Printf("fleet: in flight at kills %d, at pauses longer than the lease %d; refused calls %d; delivered before they were dead %d\n",
		c.killedInFlight, c.pausedInFlight, sum(told.refused), v.deadDelivered)
	requireSuspicion(t, c, w, v)
}

// requireSuspicion fails a run that cannot have shown anything.
func requireSuspicion(t *testing.T, c *chaos, w *writers, v outcome) {
	t.Helper()
	require.Equal(t, c.size.messages, v.committed)
	require.Positive(t, w.rolledBack.Load(), "messages that were rolled back")
	require.Positive(t, c.kills)
	require.Positive(t, c.short)
	require.Positive(t, c.long)
	require.Equal(t, c.size.restarts, c.restarts)
	require.Positive(t, c.killedInFlight, "messages in flight at the kills")
	require.Positive(t, c.pausedInFlight, "messages in flight at the pauses")
	require.Positive(t, v.dead)
	require.True(t, v.duplicates > 0 || c.kills+c.long < 10, "no duplicates: nothing was interrupted between the broker and the table")
}

func open(t *testing.T, dsn string, size size) (*pgxpool.Pool, *postgres.DB) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), fmt.Sprintf("%s&pool_max_conns=%d", dsn, size.writers+4))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Migrate(t.Context()))
	_, err = pool.Exec(t.Context(), businessSQL)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), fillSQL, size.keys)
	require.NoError(t, err)
	return pool, db
}

// write starts the writers; written is closed when they are done.
func write(t *testing.T, db *postgres.DB, address, name string, size size, seed uint64) (w *writers, written <-chan struct{}) {
	t.Helper()
	broker, err := kafka.Open(t.Context(), kafka.Config{Brokers: []string{address}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	m, err := localtable.New(db, broker, localtable.Config{})
	require.NoError(t, err)
	w = &writers{size: size, seed: seed, topic: name, messenger: m}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.failed = w.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w, done
}

// awaitSent waits until nothing is left to send. Status counts in several steps, between which a row can move: one zero may
// have missed it.
func awaitSent(t *testing.T, db *postgres.DB, relays []*instance) {
	t.Helper()
	var status localtable.Status
	for range 3 {
		deadline := time.Now().Add(patience)
		for {
			for _, r := range relays {
				r.RequireAlive(t)
			}
			var err error
			status, err = db.Status(t.Context())
			require.NoError(t, err)
			if status.Ready+status.Waiting+status.Retry+status.Parked == 0 {
				break
			}
			require.True(t, time.Now().Before(deadline), "waited in vain for all to be sent: %+v", status)
			pause(t.Context(), 50*time.Millisecond)
		}
	}
}

func sum(counts map[string]int) (all int) {
	for _, count := range counts {
		all += count
	}
	return all
}

package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/integration/services"
)

// patience bounds every wait for one thing: it is there for failures, and for machines with much else to do.
const patience = 2 * time.Minute

// fault is a way to harm a relay.
type fault int

const (
	kill  fault = iota
	short       // a pause that the lease outlives
	long        // one that it does not
)

// chaos is what happens to the relays and their broker.
type chaos struct {
	t      *testing.T
	size   size
	random *rand.Rand
	broker *services.Server
	relays []*instance
	again  func() *instance // starts a relay
	pauses sync.WaitGroup

	kills, killedInFlight int // relays, messages
	short, long           int // pauses
	pausedInFlight        int // messages, in long pauses
	restarts              int // of the broker
}

// run harms one relay after the other, and the broker now and then, until the writers are done and every kind of fault
// was seen. It returns when nothing is paused any more and the broker runs.
func (c *chaos) run(written <-chan struct{}) {
	c.t.Helper()
	ctx := c.t.Context()
	expected := int(c.size.lasting / c.size.every)
	first := []fault{kill, short, long}
	c.random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	down := -1 // since which fault the broker is
	tick := time.NewTicker(c.size.every)
	defer tick.Stop()
	defer c.pauses.Wait()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if down < 0 && c.restarts == c.size.restarts && n >= expected && closed(written) {
			return
		}
		next := fault(c.random.IntN(3))
		if n < len(first) {
			next = first[n]
		}
		c.inflict(ctx, next)
		switch {
		case down >= 0 && n >= down+2:
			c.broker.Restart()
			c.restarts++
			down = -1
		case down < 0 && c.restarts < c.size.restarts && n >= (c.restarts+1)*expected/(c.size.restarts+1):
			if c.random.IntN(2) == 0 {
				c.broker.Stop()
			} else {
				c.broker.Kill()
			}
			down = n
		}
	}
}

func closed(written <-chan struct{}) bool {
	select {
	case <-written:
		return true
	default:
		return false
	}
}

func (c *chaos) inflict(ctx context.Context, how fault) {
	c.t.Helper()
	var running []int
	for i, r := range c.relays {
		r.RequireAlive(c.t)
		if !r.isPaused() {
			running = append(running, i)
		}
	}
	if len(running) == 0 {
		return
	}
	i := running[c.random.IntN(len(running))]
	victim := c.relays[i]
	c.await(ctx, victim)
	lease := float64(c.size.lease)
	switch how {
	case kill:
		c.kills++
		c.killedInFlight += victim.kill(c.t)
		c.relays[i] = c.again()
	case short:
		c.short++
		c.pause(victim, lease*(0.2+0.6*c.random.Float64()))
	case long:
		c.long++
		c.pause(victim, lease*(1.3+1.2*c.random.Float64()))
		flying, _ := victim.inFlight()
		c.pausedInFlight += flying
	}
}

func (c *chaos) pause(r *instance, nanoseconds float64) {
	c.t.Helper()
	c.pauses.Add(1)
	r.pause(c.t, time.Duration(nanoseconds), c.pauses.Done)
}

// await waits, not for long, until the victim has something in flight, every other time something that is refused, and then for a
// moment within it.
func (c *chaos) await(ctx context.Context, victim *instance) {
	choosy := c.random.IntN(2) == 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range c.size.every / time.Millisecond / 2 {
		flying, refused := victim.inFlight()
		if flying > 0 && (!choosy || refused > 0) {
			break
		}
		<-tick.C
	}
	pause(ctx, time.Duration(c.random.IntN(int(30*time.Millisecond))))
}

// explain tells what there is to see when a run has failed.
func (c *chaos) explain(pool *pgxpool.Pool) {
	for i, r := range c.relays {
		c.t.Logf("relay %d, process %d: %s", i, r.Command.Process.Pid, r.Tail())
	}
	for _, sql := range []string{
		"SELECT 'instance ' || owner || ' ' || expires_at - clock_timestamp() FROM txmsg_instance",
		"SELECT 'lanes ' || coalesce(owner, 'nobody') || ' ' || array_agg(lane ORDER BY lane)::text FROM txmsg_lane GROUP BY owner",
		"SELECT 'ready ' || array_agg(DISTINCT lane)::text || ' ' || count(*) || ' ' || count(DISTINCT key) FROM txmsg_ready",
		"SELECT 'held ' || state || ' ' || array_agg(DISTINCT lane)::text || ' ' || count(*) || ' ' || count(DISTINCT key) FROM txmsg_held GROUP BY state",
		"SELECT 'session ' || pid || ' ' || coalesce(state, '') || ' ' || coalesce(wait_event, '') || ' ' || clock_timestamp() - xact_start || ' ' || left(query, 100) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()",
	} {
		rows, err := pool.Query(context.Background(), sql)
		lines, failed := pgx.CollectRows(rows, pgx.RowTo[*string])
		if err = errors.Join(err, failed); err != nil {
			c.t.Log(err)
		}
		for _, line := range lines {
			if line != nil {
				c.t.Log(*line)
			}
		}
	}
}

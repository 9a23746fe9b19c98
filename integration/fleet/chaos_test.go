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

// strike is a way to harm a relay.
type strike int

const (
	kill  strike = iota
	short        // a pause that the lease outlives
	long         // one that it does not
)

// trouble is what happens to the relays and their broker.
type trouble struct {
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

// make strikes one relay after the other, and the broker now and then, until the writers are done and every kind of strike
// was seen. It returns when nothing is paused any more and the broker runs.
func (h *trouble) make(written <-chan struct{}) {
	h.t.Helper()
	ctx := h.t.Context()
	expected := int(h.size.lasting / h.size.every)
	first := []strike{kill, short, long}
	h.random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	down := -1 // since which strike the broker is
	tick := time.NewTicker(h.size.every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if down < 0 && h.restarts == h.size.restarts && n >= expected && closed(written) {
			break
		}
		next := strike(h.random.IntN(3))
		if n < len(first) {
			next = first[n]
		}
		h.strike(ctx, next)
		switch {
		case down >= 0 && n >= down+2:
			h.broker.Restart()
			h.restarts++
			down = -1
		case down < 0 && h.restarts < h.size.restarts && n >= (h.restarts+1)*expected/(h.size.restarts+1):
			if h.random.IntN(2) == 0 {
				h.broker.Stop()
			} else {
				h.broker.Kill()
			}
			down = n
		}
	}
	h.pauses.Wait()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (h *trouble) strike(ctx context.Context, how strike) {
	h.t.Helper()
	var running []int
	for i, r := range h.relays {
		r.requireAlive(h.t)
		if !r.isPaused() {
			running = append(running, i)
		}
	}
	if len(running) == 0 {
		return
	}
	i := running[h.random.IntN(len(running))]
	victim := h.relays[i]
	h.await(ctx, victim)
	lease := float64(h.size.lease)
	switch how {
	case kill:
		h.kills++
		h.killedInFlight += victim.kill(h.t)
		h.relays[i] = h.again()
	case short:
		h.short++
		h.pause(victim, lease*(0.2+0.6*h.random.Float64()))
	case long:
		h.long++
		h.pause(victim, lease*(1.3+1.2*h.random.Float64()))
		flying, _ := victim.inFlight()
		h.pausedInFlight += flying
	}
}

func (h *trouble) pause(r *instance, nanoseconds float64) {
	h.t.Helper()
	h.pauses.Add(1)
	r.pause(h.t, time.Duration(nanoseconds), h.pauses.Done)
}

// await waits, not for long, until the victim has something in flight, every other time something that is refused, and then for a
// moment within it.
func (h *trouble) await(ctx context.Context, victim *instance) {
	choosy := h.random.IntN(2) == 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range h.size.every / time.Millisecond / 2 {
		flying, refused := victim.inFlight()
		if flying > 0 && (!choosy || refused > 0) {
			break
		}
		<-tick.C
	}
	pause(ctx, time.Duration(h.random.IntN(int(30*time.Millisecond))))
}

// explain tells what there is to see when a run has failed.
func (h *trouble) explain(pool *pgxpool.Pool) {
	for i, r := range h.relays {
		h.t.Logf("relay %d, process %d: %s", i, r.command.Process.Pid, r.tail())
	}
	for _, sql := range []string{
		"SELECT 'instance ' || owner || ' ' || expires_at - clock_timestamp() FROM txmsg_instance",
		"SELECT 'lanes ' || coalesce(owner, 'nobody') || ' ' || array_agg(lane ORDER BY lane)::text FROM txmsg_lane GROUP BY owner",
		"SELECT 'ready ' || array_agg(DISTINCT lane)::text || ' ' || count(*) || ' ' || count(DISTINCT key) FROM txmsg_message",
		"SELECT 'held ' || state || ' ' || array_agg(DISTINCT lane)::text || ' ' || count(*) || ' ' || count(DISTINCT key) FROM txmsg_held GROUP BY state",
		"SELECT 'session ' || pid || ' ' || coalesce(state, '') || ' ' || coalesce(wait_event, '') || ' ' || clock_timestamp() - xact_start || ' ' || left(query, 100) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()",
	} {
		rows, err := pool.Query(context.Background(), sql)
		lines, failed := pgx.CollectRows(rows, pgx.RowTo[*string])
		if err = errors.Join(err, failed); err != nil {
			h.t.Log(err)
		}
		for _, line := range lines {
			if line != nil {
				h.t.Log(*line)
			}
		}
	}
}

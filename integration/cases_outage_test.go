package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestOutageCases(t *testing.T) {
	t.Parallel()
	t.Run("C33 four nodes do not rush a broker that comes back", testRush)
}

// gate is the way of several nodes to their broker. It can be shut, and notes their calls.
type gate struct {
	mu    sync.Mutex
	shut  bool
	calls [][]call // of each node
}

type call struct {
	at   time.Time
	rows int
	shut bool
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

// pass notes a call and reports whether the gate lets it through.
func (g *gate) pass(node, rows int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[node] = append(g.calls[node], call{time.Now(), rows, g.shut})
	return !g.shut
}

// of returns the calls of a node while the gate was shut, and those after.
func (g *gate) of(node int) (shut, open []call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls[node] {
		if c.shut {
			shut = append(shut, c)
		} else {
			open = append(open, c)
		}
	}
	return shut, open
}

// gated is one node's broker.
type gated struct {
	localtable.Broker
	gate *gate
	node int
}

func (b gated) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	if b.gate.pass(b.node, len(msgs)) {
		return b.Broker.Publish(ctx, msgs)
	}
	results := make([]error, len(msgs))
	for i := range results {
		results[i] = fmt.Errorf("gate is shut: %w", txmsg.ErrOutage)
	}
	return results
}

func testRush(t *testing.T) {
	t.Parallel()
	const (
		nodes, rows = 4, 20_000
		batch       = 500
		concurrency = 3
		probe       = 16 // rows
		factor      = 4  // from batch to batch, when the broker answers again
	)
	s := newShop(t, services.Postgres(t), onKafka(t))
	g := &gate{shut: true, calls: make([][]call, nodes)}
	var relays []*messenger
	cfg := localtable.Config{BatchSize: batch, Concurrency: concurrency, PollInterval: 100 * time.Millisecond} // polls are not what spaces the probes
	for node := range nodes {
		relays = append(relays, s.messenger(t, cfg, func(b localtable.Broker) localtable.Broker { return gated{b, g, node} }))
	}
	for _, m := range relays {
		run(t, m)
	}
	eventually(t, func() bool {
		for _, m := range relays {
			if m.Health().Lanes != localtable.Lanes/nodes {
				return false
			}
		}
		return true
	}, "the nodes to share the lanes")
	s.fill(t, rows)
	pause(20 * time.Second)
	g.set(false)
	s.awaitDrained(t)

	read := s.awaitDelivered(t)
	require.Len(t, read, rows, "records")
	require.Len(t, copies(read), rows, "ids")
	require.Zero(t, s.spent(t), "messages that the outage cost an attempt")
	for node := range nodes {
		shut, open := g.of(node)
		require.GreaterOrEqual(t, len(shut), 3, "calls of node %d to the broker that was away", node)
		// A probe waits for the answer to the one before, or to the first batch of all, and a second more: one that comes late puts
		// off those after it. All rows came at once and are more than a node's batches take: a call that is larger than a probe
		// was under way when the node learned of the outage, however late it comes.
		before, probes := shut[0].at, 0
		for _, c := range shut[1:] {
			if c.rows > probe {
				continue
			}
			require.Greater(t, c.at.Sub(before), 900*time.Millisecond, "time to a probe of node %d", node)
			before, probes = c.at, probes+1
		}
		require.LessOrEqual(t, len(shut)-probes, concurrency, "batches of node %d for the broker that was away", node)
		most := probe
		for _, c := range open[:3] {
			require.LessOrEqual(t, c.rows, most, "rows of node %d's first calls: %v", node, open[:3])
			most *= factor
		}
	}
}

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestOutageCases(t *testing.T) {
	t.Parallel()
	t.Run("C33 four nodes do not rush a broker that comes back", testRush)
	t.Run("C62 PublishTimeout bounds a call that is not answered, Kafka", testKafkaTimeout)
	t.Run("C62 PublishTimeout bounds a call that is not answered, NATS", testNATSTimeout)
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
		probe       = 16 // rows
		factor      = 4  // from batch to batch, when the broker answers again
	)
	s := newShop(t, services.Postgres(t), onKafka(t))
	g := &gate{shut: true, calls: make([][]call, nodes)}
	var relays []*messenger
	for node := range nodes {
		relays = append(relays, s.messenger(t, localtable.Config{}, func(b localtable.Broker) localtable.Broker { return gated{b, g, node} }))
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
		learned := shut[0].at.Add(time.Second) // batches that were under way together
		for i, c := range shut {
			if c.at.After(learned) {
				require.LessOrEqual(t, c.rows, probe, "rows of a probe")
				require.True(t, i == 0 || c.at.Sub(shut[i-1].at) > 900*time.Millisecond, "two probes of node %d within a second", node)
			}
		}
		most := probe
		for _, c := range open[:3] {
			require.LessOrEqual(t, c.rows, most, "rows of node %d's first calls: %v", node, open[:3])
			most *= factor
		}
	}
}

// requireTimeouts has brokers with time-outs of 1 s and 7 s publish to a server, then to one that no longer answers.
func requireTimeouts(t *testing.T, name string, open func(timeout time.Duration) localtable.Broker, silence func()) {
	t.Helper()
	const tolerance = 500 * time.Millisecond
	timeouts := []time.Duration{time.Second, 7 * time.Second}
	brokers := make([]localtable.Broker, len(timeouts))
	publish := func(i int) error {
		return brokers[i].Publish(context.Background(), []txmsg.Message{{ID: txmsg.NewID(), Topic: name, Key: "key", Body: []byte("body")}})[0]
	}
	for i, timeout := range timeouts {
		brokers[i] = open(timeout)
		t.Cleanup(func() { _ = brokers[i].Close() })
		require.NoError(t, publish(i))
	}
	silence()
	errs, took := make([]error, len(timeouts)), make([]time.Duration, len(timeouts))
	var all sync.WaitGroup
	for i := range timeouts {
		all.Go(func() {
			begin := time.Now()
			errs[i] = publish(i)
			took[i] = time.Since(begin)
		})
	}
	all.Wait()
	for i, timeout := range timeouts {
		require.ErrorIs(t, errs[i], txmsg.ErrOutage)
		require.InDelta(t, timeout, took[i], float64(tolerance), "time of a call with a time-out of %s", timeout)
	}
}

func testKafkaTimeout(t *testing.T) {
	t.Parallel()
	server, proxy := services.StartKafkaProxied(t, nil)
	requireTimeouts(t, topic.Kafka(server.Address()).Create(t), func(timeout time.Duration) localtable.Broker {
		broker, err := kafka.Open(t.Context(), kafka.Config{Brokers: []string{server.Address()}, PublishTimeout: timeout})
		require.NoError(t, err)
		return broker
	}, proxy.SwallowReplies)
}

func testNATSTimeout(t *testing.T) {
	t.Parallel()
	url := services.NATS(t)
	proxy := services.NewProxy(t, url)
	requireTimeouts(t, topic.NATS(url).Create(t), func(timeout time.Duration) localtable.Broker {
		broker, err := nats.Open(t.Context(), nats.Config{URLs: []string{proxy.Replace(url)}, PublishTimeout: timeout})
		require.NoError(t, err)
		return broker
	}, proxy.SwallowReplies)
}

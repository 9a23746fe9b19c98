package rocketmq

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

// checkCycle is the longest time after which the shared broker has asked about a half, with some to spare: its time-out
// is 1.5 s, and it looks every 2 s.
const checkCycle = 5 * time.Second

// world is one database and one group on the real broker.
type world[Tx any] struct {
	nameServer string
	group      string
	topics     []string // made beforehand: a messenger must know all topics that it will publish to
	given      int
	mu         sync.Mutex
	sending    atomic.Int64
	unsettled  atomic.Int64 // halves that only a check will settle, or that may exist although nobody knows
}

func newWorld[Tx any](t *testing.T) *world[Tx] {
	nameServer := services.RocketMQ(t)
	w := &world[Tx]{nameServer: nameServer, group: "test-" + txmsg.NewID()}
	for range 2 {
		w.topics = append(w.topics, rocketmqtest.Topic(t, nameServer, 1))
	}
	return w
}

func (w *world[Tx]) topic(t *testing.T) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Less(t, w.given, len(w.topics), "make more topics beforehand")
	w.given++
	return w.topics[w.given-1]
}

// messenger opens a messenger that is shut down when t ends, whether it was run or not.
func (w *world[Tx]) messenger(t *testing.T, store checker.Store[Tx], change ...func(*Config)) *Messenger[Tx] {
	cfg := Config{NameServers: []string{w.nameServer}, Group: w.group, Topics: w.topics}
	for _, f := range change {
		f(&cfg)
	}
	m, err := newMessenger(store, cfg, w.dial, remoting.Missing)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !m.ran.Load() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Run(ctx)
		}
	})
	return m
}

// dial counts what the quiesce of the suite must wait for.
func (w *world[Tx]) dial(cfg *Config, l primitive.TransactionListener, s producer.QueueSelector) (sender, error) {
	client, err := dialLibrary(cfg, l, s)
	return &countingSender{sender: client, sending: &w.sending, unsettled: &w.unsettled}, err
}

type countingSender struct {
	sender
	sending, unsettled *atomic.Int64
}

func (c *countingSender) SendMessageInTransaction(ctx context.Context, m *primitive.Message) (*primitive.TransactionSendResult, error) {
	if m.GetProperty(propertyHalf) == "" {
		return c.sender.SendMessageInTransaction(ctx, m)
	}
	c.sending.Add(1)
	defer c.sending.Add(-1)
	result, err := c.sender.SendMessageInTransaction(ctx, m)
	if err != nil || result.State == primitive.UnkonwnState {
		c.unsettled.Add(1)
	}
	return result, err
}

// quiesce waits until no half of this process is on its way, and, if some were left to checks, for two rounds of these.
func (w *world[Tx]) quiesce(ctx context.Context) error {
	for w.sending.Load() > 0 {
		if sleep(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if w.unsettled.Swap(0) > 0 {
		sleep(ctx, 2*checkCycle)
	}
	return ctx.Err()
}

func (w *world[Tx]) receive(ctx context.Context, t *testing.T, topic string) <-chan txmsg.Delivery {
	out := make(chan txmsg.Delivery)
	in := rocketmqtest.Read(ctx, t, w.nameServer, topic, 1)
	go func() {
		defer close(out)
		for m := range in {
			select {
			case out <- delivery(m):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func TestConformanceInMemory(t *testing.T) {
	txmsgtest.Run(t, txmsgtest.Harness[memoryTx]{
		Open:  openMemoryWorld,
		Scale: txmsgtest.Scale{Workers: 8, Rounds: 20},
		Leaks: rocketmqtest.Leaks(),
	})
}

func openMemoryWorld(t *testing.T) txmsgtest.Bundle[memoryTx] {
	w, store := newWorld[memoryTx](t), storetest.NewMemory()
	return txmsgtest.Bundle[memoryTx]{
		Messenger: func(t *testing.T) txmsg.Messenger[memoryTx] { return w.messenger(t, store) },
		Write: func(_ context.Context, tx memoryTx, id string) error {
			return tx.Put(id, "")
		},
		Rows: func(context.Context) ([]string, error) { return store.Keys(), nil },
		Nested: func(ctx context.Context, tx memoryTx, _ txmsg.Publisher, fn func(context.Context, memoryTx) error) error {
			return tx.Nested(func() error { return fn(ctx, tx) })
		},
		Topic:   w.topic,
		Receive: w.receive,
		Quiesce: w.quiesce,
		Hooks: txmsgtest.Hooks[memoryTx]{
			Conflict: storetest.ErrConflict,
			FailStatement: func(ctx context.Context, tx memoryTx) error {
				return store.Exec(ctx, tx, txmsg.Statement{SQL: "nonsense"})
			},
			FailCommit: func(context.Context, memoryTx) error {
				store.Inject(storetest.OpCommit, storetest.Fault{Err: errors.New("deferred constraint")})
				return nil
			},
		},
	}
}

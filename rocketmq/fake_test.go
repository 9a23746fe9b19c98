package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// fakeBroker is a name server, a broker and the clients of one group, in memory.
type fakeBroker struct {
	mu       sync.Mutex
	away     bool
	missing  []string
	faults   []sendFault
	halves   []*storedHalf
	clients  []*fakeClient
	storing  int // sends under way whose half is not stored
	most     int // storing at once
	canceled bool
}

// storedHalf is what the broker has of a half.
type storedHalf struct {
	id      string
	message txmsg.Message
	ext     *primitive.MessageExt
	state   primitive.LocalTransactionState // 0 until it is settled; the first settlement counts
}

// sendFault is how one send goes wrong. The zero value is a send that works.
type sendFault struct {
	err    error                // not stored
	lost   error                // stored, and the reply is lost
	status primitive.SendStatus // stored with this status
	delay  time.Duration        // of the reply
	crash  any                  // panic after the listener, before the settlement
	mute   bool                 // the settlement is lost
}

var errTimeout = errors.New("request timeout")

func (b *fakeBroker) inject(faults ...sendFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, faults...)
}

func (b *fakeBroker) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *fakeBroker) setMissing(topics ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = topics
}

func (b *fakeBroker) lookUp(_ context.Context, _, topics []string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return nil, errors.New("connection refused")
	}
	var missing []string
	for _, topic := range topics {
		if slices.Contains(b.missing, topic) {
			missing = append(missing, topic)
		}
	}
	return missing, nil
}

func (b *fakeBroker) dial(_ *Config, listener primitive.TransactionListener, selector producer.QueueSelector) (sender, error) {
	return &fakeClient{broker: b, listener: listener, selector: selector}, nil
}

// settled returns the state of each half, in the order in which they were stored.
func (b *fakeBroker) settled() []primitive.LocalTransactionState {
	b.mu.Lock()
	defer b.mu.Unlock()
	var states []primitive.LocalTransactionState
	for _, h := range b.halves {
		states = append(states, h.state)
	}
	return states
}

// delivered returns the IDs of the messages that consumers have got.
func (b *fakeBroker) delivered() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := []string{}
	for _, h := range b.halves {
		if h.state == primitive.CommitMessageState {
			ids = append(ids, h.message.ID)
		}
	}
	return ids
}

// check asks the last client that is running about every half that is not settled.
func (b *fakeBroker) check() {
	b.mu.Lock()
	halves := slices.Clone(b.halves)
	var asked *fakeClient
	for _, c := range b.clients {
		if c.running {
			asked = c
		}
	}
	b.mu.Unlock()
	for _, h := range halves {
		b.mu.Lock()
		state := h.state
		b.mu.Unlock()
		if state == 0 && asked != nil {
			b.settle(h, asked.listener.CheckLocalTransaction(h.ext))
		}
	}
}

func (b *fakeBroker) settle(h *storedHalf, state primitive.LocalTransactionState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.state == 0 && state != primitive.UnkonwnState {
		h.state = state
	}
}

type fakeClient struct {
	broker   *fakeBroker
	listener primitive.TransactionListener
	selector producer.QueueSelector
	running  bool
}

func (c *fakeClient) Start() error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.running = true
	c.broker.clients = append(c.broker.clients, c)
	return nil
}

func (c *fakeClient) Shutdown() error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.running = false
	return nil
}

func (c *fakeClient) SendMessageInTransaction(ctx context.Context, m *primitive.Message) (*primitive.TransactionSendResult, error) {
	queues := []*primitive.MessageQueue{{Topic: m.Topic, BrokerName: "a"}, {Topic: m.Topic, BrokerName: "b"}}
	queue := c.selector.Select(m, queues, "")
	if queue == nil || queue.Topic != m.Topic {
		return nil, errors.New("route info not found")
	}
	if ctx.Done() != nil {
		c.broker.mu.Lock()
		c.broker.canceled = true
		c.broker.mu.Unlock()
	}
	fault := c.begin()
	if fault.err != nil {
		sleep(context.Background(), fault.delay)
		c.end()
		return nil, fault.err
	}
	h := c.store(m)
	sleep(context.Background(), fault.delay)
	c.end()
	if fault.lost != nil {
		return nil, fault.lost
	}
	result := &primitive.TransactionSendResult{SendResult: &primitive.SendResult{Status: fault.status}}
	if fault.status != primitive.SendOK {
		result.State = primitive.RollbackMessageState
		c.broker.settle(h, result.State)
		return result, nil
	}
	result.State = c.listener.ExecuteLocalTransaction(m)
	if fault.crash != nil {
		panic(fault.crash)
	}
	if !fault.mute {
		c.broker.settle(h, result.State)
	}
	return result, nil
}

func (c *fakeClient) begin() sendFault {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.storing++
	b.most = max(b.most, b.storing)
	if b.away {
		return sendFault{err: errTimeout}
	}
	var fault sendFault
	if len(b.faults) > 0 {
		fault, b.faults = b.faults[0], b.faults[1:]
	}
	return fault
}

func (c *fakeClient) end() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.broker.storing--
}

func (c *fakeClient) store(m *primitive.Message) *storedHalf {
	ext := &primitive.MessageExt{Message: primitive.Message{Topic: m.Topic, Body: m.Body}}
	ext.WithProperties(m.GetProperties())
	message, _ := readMessage(ext)
	h := &storedHalf{id: m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex), message: message, ext: ext}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.broker.halves = append(c.broker.halves, h)
	return h
}

type (
	memoryTx = *storetest.MemoryTx
	callback = func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error
)

// bundle is one messenger on a fake broker and a database in memory.
type bundle struct {
	broker    *fakeBroker
	store     *storetest.Memory
	messenger *Messenger[memoryTx]
}

func testConfig() Config {
	return Config{NameServers: []string{"namesrv:9876"}, Group: "orders", Topics: []string{"orders", "other"}}
}

func setup(t *testing.T, change ...func(*Config)) bundle {
	b := bundle{broker: &fakeBroker{}, store: storetest.NewMemory()}
	b.messenger = b.open(t, change...)
	return b
}

// open returns one more messenger on the same broker and database.
func (b bundle) open(t *testing.T, change ...func(*Config)) *Messenger[memoryTx] {
	cfg := testConfig()
	for _, f := range change {
		f(&cfg)
	}
	m, err := newMessenger(b.store, cfg, b.broker.dial, b.broker.lookUp)
	require.NoError(t, err)
	return m
}

// run runs m until stop.
func run(t *testing.T, m *Messenger[memoryTx]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// publish writes a row and publishes a message for each of ids.
func publish(ids ...string) callback {
	return func(ctx context.Context, tx memoryTx, out txmsg.Publisher) error {
		for _, id := range ids {
			if err := tx.Put(id, id); err != nil {
				return err
			}
			if err := out.Publish(ctx, message(id)); err != nil {
				return err
			}
		}
		return nil
	}
}

func message(id string) txmsg.Message {
	return txmsg.Message{ID: id, Topic: "orders", Key: "k", Type: "order.created", Body: []byte(fmt.Sprint("body of ", id))}
}

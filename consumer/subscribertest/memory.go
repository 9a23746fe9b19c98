package subscribertest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

// redelivery is how long a Memory keeps a refused message back.
const redelivery = 10 * time.Millisecond

// Memory is a broker in memory. The zero value works; a topic is there when it is first used.
type Memory struct {
	mu      sync.Mutex
	away    bool
	topics  map[string][]record
	groups  map[string]*group
	changed chan struct{} // closed and renewed at every change
}

type record struct {
	body    []byte
	headers map[string]string
}

// group is how far a consumer group has come.
type group struct {
	taken map[place]bool // under way or acknowledged
	busy  map[string]bool
}

type place struct {
	topic  string
	offset int
}

// Publish stores msgs. While the broker is away it is an [txmsg.ErrOutage].
func (m *Memory) Publish(ctx context.Context, msgs ...txmsg.Message) error {
	for _, msg := range msgs {
		if err := m.PublishRaw(ctx, msg.Topic, msg.Body, maps.Collect(txmsg.ToWire(msg))); err != nil {
			return err
		}
	}
	return nil
}

// PublishRaw stores one record with these headers.
func (m *Memory) PublishRaw(_ context.Context, topic string, body []byte, headers map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return fmt.Errorf("subscribertest: %w", txmsg.ErrOutage)
	}
	if m.topics == nil {
		m.topics = map[string][]record{}
	}
	m.topics[topic] = append(m.topics[topic], record{append([]byte{}, body...), maps.Clone(headers)})
	m.signal()
	return nil
}

// SetAway makes the broker unreachable, or reachable again.
func (m *Memory) SetAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
	m.signal()
}

// Messages returns what the topic holds, in the order in which it was stored.
func (m *Memory) Messages(topic string) []txmsg.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	var msgs []txmsg.Message
	for offset := range m.topics[topic] {
		msgs = append(msgs, m.delivery(place{topic, offset}).Message)
	}
	return msgs
}

// Pending returns how many messages of the topics the group has not acknowledged, those under way left out.
func (m *Memory) Pending(name string, topics ...string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	pending := 0
	for _, topic := range topics {
		for offset := range m.topics[topic] {
			if !m.group(name).taken[place{topic, offset}] {
				pending++
			}
		}
	}
	return pending
}

// Subscriber returns a subscriber of the group.
func (m *Memory) Subscriber(group string, topics ...string) consumer.Subscriber {
	return &subscriber{memory: m, group: group, topics: topics}
}

func (m *Memory) signal() {
	if m.changed != nil {
		close(m.changed)
	}
	m.changed = make(chan struct{})
}

func (m *Memory) group(name string) *group {
	if m.groups == nil {
		m.groups = map[string]*group{}
	}
	if m.groups[name] == nil {
		m.groups[name] = &group{taken: map[place]bool{}, busy: map[string]bool{}}
	}
	return m.groups[name]
}

func (m *Memory) delivery(at place) txmsg.Delivery {
	r := m.topics[at.topic][at.offset]
	msg, malformed := txmsg.FromWire(at.topic, append([]byte{}, r.body...), r.headers, fmt.Sprintf("memory/%s/%d", at.topic, at.offset))
	return txmsg.Delivery{
		Message: msg, Malformed: malformed,
		Source: txmsg.Source{Broker: "memory", Topic: at.topic, Partition: "0", Offset: int64(at.offset)},
	}
}

type subscriber struct {
	memory *Memory
	group  string
	topics []string
}

// Run implements [consumer.Subscriber].
func (s *subscriber) Run(ctx context.Context, deliver func(ctx context.Context, d txmsg.Delivery) error) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	for ctx.Err() == nil {
		d, at, changed := s.take()
		if d == nil {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		calls.Go(func() {
			err := deliver(context.WithoutCancel(ctx), *d)
			if err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(redelivery):
				}
			}
			s.settle(at, d.Message.Key, err == nil)
		})
	}
	return nil
}

// take takes the first message that is neither taken nor behind one of its key, or returns what to wait for.
func (s *subscriber) take() (*txmsg.Delivery, place, <-chan struct{}) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.signal()
	}
	g := m.group(s.group)
	for _, topic := range s.topics {
		for offset := range m.topics[topic] {
			at := place{topic, offset}
			if m.away || g.taken[at] {
				continue
			}
			d := m.delivery(at)
			if key := d.Message.Key; key != "" {
				if g.busy[topic+"/"+key] {
					continue
				}
				g.busy[topic+"/"+key] = true
			}
			g.taken[at] = true
			return &d, at, m.changed
		}
	}
	return nil, place{}, m.changed
}

func (s *subscriber) settle(at place, key string, acknowledged bool) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(s.group)
	if !acknowledged {
		delete(g.taken, at)
	}
	delete(g.busy, at.topic+"/"+key)
	m.signal()
}

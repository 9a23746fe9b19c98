package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/internal/dispatch"
)

// member is one Run of a Subscriber.
type member struct {
	cfg    SubscriberConfig
	client *kgo.Client
	pool   *dispatch.Pool

	mu         sync.Mutex
	partitions map[place]*partition // those that are owned and have had messages
}

type place struct {
	topic  string
	number int32
}

const errorPause = 250 * time.Millisecond

// poll reads and queues until ctx ends. Nothing here waits for a delivery: a partition that has enough is paused.
func (m *member) poll(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := m.client.PollRecords(ctx, m.cfg.Buffer)
		failed := false
		fetches.EachError(func(topic string, number int32, err error) {
			if ctx.Err() == nil && !errors.Is(err, kgo.ErrClientClosed) {
				failed = true
				m.cfg.Logger.Warn("kafka fetch", "topic", topic, "partition", number, "error", err)
			}
		})
		if ctx.Err() == nil {
			fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
				if len(fetched.Records) > 0 {
					m.partition(place{fetched.Topic, fetched.Partition}).add(ctx, fetched.Records)
				}
			})
		}
		m.client.AllowRebalance()
		if failed && fetches.NumRecords() == 0 {
			sleep(ctx, errorPause)
		}
	}
}

func (m *member) partition(at place) *partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.partitions[at]
	if !ok {
		p = newPartition(m, at)
		m.partitions[at] = p
	}
	return p
}

// revoked lets the calls of partitions that go to another member finish, and stores how far they came: until this returns,
// Kafka gives the partitions to nobody, unless it takes longer than the group allows.
func (m *member) revoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	m.drop(revoked)
	m.commit(ctx)
}

// lost is for partitions that are already someone else's. Their calls are waited for all the same: were the partition
// to come back, two calls of a key could run at once.
func (m *member) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) { m.drop(lost) }

func (m *member) drop(gone map[string][]int32) {
	var dropped []*partition
	m.mu.Lock()
	for topic, numbers := range gone {
		for _, number := range numbers {
			if p, ok := m.partitions[place{topic, number}]; ok {
				dropped = append(dropped, p)
				delete(m.partitions, p.at)
			}
		}
	}
	m.mu.Unlock()
	stop(dropped)
}

// leave ends in this order: no more calls begin, those that run finish, the position is stored, the partitions are given up.
func (m *member) leave(ctx context.Context) {
	m.mu.Lock()
	var all []*partition
	for _, p := range m.partitions {
		all = append(all, p)
	}
	m.mu.Unlock()
	stop(all)
	m.commit(ctx)
	leaveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Timeout)
	defer cancel()
	if err := m.client.LeaveGroupContext(leaveCtx); err != nil {
		m.cfg.Logger.Warn("kafka group not left, others wait for the session timeout", "group", m.cfg.Group, "error", err)
	}
	m.client.CloseAllowingRebalance()
}

func stop(partitions []*partition) {
	for _, p := range partitions {
		p.queue.Close()
	}
	for _, p := range partitions {
		p.queue.Stop()
		p.forget()
	}
}

func (m *member) commit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Timeout)
	defer cancel()
	if err := m.client.CommitMarkedOffsets(ctx); err != nil {
		m.cfg.Logger.Warn("kafka position not stored, messages come again", "group", m.cfg.Group, "error", err)
	}
}

const (
	topicsInterval = time.Second
	topicsReminder = 30 // intervals between two log lines about the same state
)

// awaitTopics says which topics do not exist, until all do. The client alone would find a new one within minutes.
func (m *member) awaitTopics(ctx context.Context) {
	missing := m.cfg.Topics
	for round := 0; ; round++ {
		left, err := m.missing(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if round%topicsReminder == 0 {
				m.cfg.Logger.Warn("kafka does not answer, waiting for it", "brokers", m.cfg.Brokers, "error", err)
			}
			left = missing
		case len(left) == 0:
			if round > 0 {
				m.client.ForceMetadataRefresh()
			}
			return
		case len(left) != len(missing) || round%topicsReminder == 0:
			m.cfg.Logger.Warn("kafka topics do not exist, waiting for them", "topics", left)
			m.client.ForceMetadataRefresh()
		}
		missing = left
		sleep(ctx, topicsInterval)
	}
}

func (m *member) missing(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	return missingTopics(ctx, m.client, m.cfg.Topics)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

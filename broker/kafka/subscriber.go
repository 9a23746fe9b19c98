package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/internal/dispatch"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Subscriber reads topics as a member of a consumer group. It implements consumer.Subscriber.
//
// A group has one position in each partition, and the one that is stored is that of the first message which is not
// acknowledged. So what is acknowledged behind a message that is not comes again after a restart, a crash, or a
// change of the partition's owner; nothing is ever passed over. Only messages of committed Kafka transactions are read.
type Subscriber struct {
	cfg     SubscriberConfig
	options []kgo.Opt
}

// NewSubscriber checks cfg and returns a subscriber. It does not need Kafka to be there. All problems of cfg are
// reported together.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	options, err := cfg.connection().options()
	if err != nil {
		return nil, err
	}
	start := kgo.NewOffset().AtStart()
	if cfg.Start == "newest" {
		start = kgo.NewOffset().AtEnd()
	}
	options = append(options,
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.ConsumeStartOffset(start),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // a lost position costs duplicates, not messages
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, cfg.SessionTimeout/3)),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(cfg.CommitInterval),
		// A partition is not taken away between a poll and the queueing of what it returned.
		kgo.BlockRebalanceOnPoll(),
	)
	if err := kgo.ValidateOpts(options...); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &Subscriber{cfg: cfg, options: options}, nil
}

// Run delivers the topics' messages until ctx ends; see consumer.Subscriber.
func (s *Subscriber) Run(ctx context.Context, deliver func(ctx context.Context, delivery txmsg.Delivery) error) error {
	m := &member{
		cfg:        s.cfg,
		pool:       dispatch.NewPool(deliver, s.cfg.Concurrency, s.cfg.RetryPause, s.cfg.Logger),
		partitions: map[place]*partition{},
	}
	client, err := kgo.NewClient(append(s.options[:len(s.options):len(s.options)],
		kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost))...)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	m.client = client

	var watch sync.WaitGroup
	watch.Go(func() { m.awaitTopics(ctx) })
	m.poll(ctx)
	watch.Wait()
	m.leave(ctx)
	return nil
}

// fetchMaxWait is how long the server holds a request for which there is nothing; partitions that are new to this member wait
// for the end of the one before.
const fetchMaxWait = 500 * time.Millisecond

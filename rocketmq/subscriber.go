package rocketmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
	"github.com/txmsg/txmsg-go/txmsg"
)

// SubscriberConfig is the configuration of a [Subscriber]. NameServers, Group and Topics are required.
type SubscriberConfig struct {
	// NameServers are the name servers of one cluster, each as host:port.
	NameServers []string `yaml:"name_servers"`
	// Group is the consumer group: its members share the messages, and must all have the same Topics.
	Group string `yaml:"group"`
	// Topics are what the group reads.
	Topics []string `yaml:"topics"`
	// FromLatest makes a group that the broker does not know begin with what comes from then on. Defaults to false: it
	// begins with the oldest message.
	FromLatest bool `yaml:"from_latest"`
	// Concurrency is the most messages of one topic that are delivered at once, and the most that wait for one of
	// their key. Defaults to 64.
	Concurrency int `yaml:"concurrency"`
	// Credentials for a cluster that demands them. Defaults to none.
	Credentials Credentials `yaml:"credentials"`
	// Logger is that of [Config]. Defaults to discarding what it gets.
	Logger *slog.Logger `yaml:"-"`
}

func (c *SubscriberConfig) setDefaults() {
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *SubscriberConfig) validate() error {
	problems := validateNames("SubscriberConfig", c.NameServers, c.Group, c.Topics, c.Credentials)
	if c.Concurrency < 1 {
		problems = append(problems, fmt.Errorf("rocketmq: SubscriberConfig.Concurrency must be at least 1, got %d", c.Concurrency))
	}
	return errors.Join(problems...)
}

// Subscriber delivers the messages of some topics to one consumer group.
type Subscriber struct{ cfg SubscriberConfig }

// NewSubscriber returns a Subscriber. It does not connect.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: cfg}, nil
}

// Run calls deliver for every message until ctx ends; then it waits for the calls under way, stores what was acknowledged and
// returns nil. A broker that does not answer, and a topic that does not exist, are waited for. deliver is called by
// several goroutines, but for messages of one key one after the other, in the order of their queue. Nil acknowledges.
// After an error the same message is delivered again, here until Run ends and then elsewhere, and the later ones of its key
// wait; it is not handed back to the broker, which would try it 16 times and then take it away. A panic of deliver is an error.
// The context that deliver gets does not end with ctx.
//
// After the last call under way Run takes less than a second, as a rule: 2 s more when queues have just gone to another
// member, and 5 s more when a broker does not answer, in which it tries again. If the connection to one is lost and dials
// to it get no answer either, the client library adds 15 s for each queue that was read there.
func (s *Subscriber) Run(ctx context.Context, deliver func(ctx context.Context, delivery txmsg.Delivery) error) error {
	session := &session{
		deliver: deliver, ctx: context.WithoutCancel(ctx), stop: make(chan struct{}),
		calls: newGate(), order: newOrder(), progress: newProgress(), group: s.cfg.Group, logger: s.cfg.Logger,
	}
	client := s.connect(ctx, session)
	if client == nil {
		return nil
	}
	<-ctx.Done()
	session.end(client, s.store)
	return nil
}

// store makes the brokers confirm offsets.
func (s *Subscriber) store(ctx context.Context, offsets map[primitive.MessageQueue]int64) error {
	return remoting.StoreOffsets(ctx, s.cfg.NameServers, s.cfg.Credentials.library(), s.cfg.Group, offsets)
}

// connect returns a started consumer, or nil when ctx has ended. It makes one only when the topics are there: the library
// leaves goroutines behind for each that does not start.
func (s *Subscriber) connect(ctx context.Context, session *session) libraryConsumer {
	for failures := 0; ctx.Err() == nil; failures++ {
		client, err := s.tryConnect(ctx, session)
		if err == nil {
			return client
		}
		if ctx.Err() == nil && failures == 0 {
			s.cfg.Logger.Warn("not subscribed: waiting for brokers or topics", "group", s.cfg.Group, "error", err)
		}
		pause := min(tryPause<<min(failures, 8), maxPause)
		sleep(ctx, pause+rand.N(pause/4))
	}
	return nil
}

func (s *Subscriber) tryConnect(ctx context.Context, session *session) (libraryConsumer, error) {
	missing, err := remoting.Missing(ctx, s.cfg.NameServers, s.cfg.Topics)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, &MissingTopicsError{Topics: missing}
	}
	takeOverProcess(s.cfg.Logger)
	client, err := consumer.NewPushConsumer(s.options(session)...)
	if err != nil {
		return nil, err
	}
	for _, topic := range slices.Compact(slices.Sorted(slices.Values(s.cfg.Topics))) {
		if err := client.Subscribe(topic, consumer.MessageSelector{}, session.consume); err != nil {
			return nil, err
		}
	}
	if err := client.Start(); err != nil {
		return nil, err // it has shut itself down
	}
	s.cfg.Logger.Info("subscribed", "group", s.cfg.Group)
	return client, nil
}

func (s *Subscriber) options(session *session) []consumer.Option {
	from := consumer.ConsumeFromFirstOffset
	if s.cfg.FromLatest {
		from = consumer.ConsumeFromLastOffset
	}
	opts := []consumer.Option{
		consumer.WithGroupName(s.cfg.Group),
		consumer.WithInstance(instanceName()),
		consumer.WithNsResolver(resolver(s.cfg.NameServers)),
		consumer.WithConsumeFromWhere(from),
		consumer.WithConsumeMessageBatchMaxSize(1),
		consumer.WithStrategy(session.progress.allocate),
		consumer.WithFilterMessageHook([]hooks.FilterMessageHook{session.order.fetch, session.progress.fetch}),
		consumer.WithConsumeGoroutineNums(s.cfg.Concurrency),
		// A message that is delivered for long is neither sent back nor taken away.
		consumer.WithConsumeTimeout(24 * time.Hour),
		consumer.WithMaxReconsumeTimes(math.MaxInt32),
		// What is fetched ahead, in messages and MiB: the library's own bounds are 50 GB.
		consumer.WithPullThresholdForTopic(4096),
		consumer.WithPullThresholdSizeForTopic(64),
	}
	if s.cfg.Credentials.AccessKey != "" {
		opts = append(opts, consumer.WithCredentials(s.cfg.Credentials.library()))
	}
	return opts
}

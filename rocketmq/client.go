package rocketmq

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/txmsg/txmsg-go/txmsg"
)

// sender is what is used of the library's transaction producer.
type sender interface {
	Start() error
	// SendMessageInTransaction stores a half and, if that worked, calls the listener's ExecuteLocalTransaction in the same
	// goroutine, tells the broker what it returned, and returns. A nil error does not mean that the listener was called.
	SendMessageInTransaction(ctx context.Context, m *primitive.Message) (*primitive.TransactionSendResult, error)
	Shutdown() error
}

// dialer makes a sender that calls listener; it does not connect. selector picks the queue of each message.
type dialer func(cfg *Config, listener primitive.TransactionListener, selector producer.QueueSelector) (sender, error)

// dialLibrary makes the library's own. Every option is there against a trap:
//   - an instance name of its own, or it would share a client object, and the first one's listener, with others;
//   - no retries, or one try would store several halves under one ID;
//   - a resolver, or it would ask a host of its maker's for name servers;
//   - no topic to copy a missing topic from, or it would create topics.
func dialLibrary(cfg *Config, listener primitive.TransactionListener, selector producer.QueueSelector) (sender, error) {
	takeOverProcess(cfg.Logger)
	opts := []producer.Option{
		producer.WithGroupName(cfg.Group),
		producer.WithInstanceName(instanceName()),
		producer.WithNsResolver(resolver(cfg.NameServers)),
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(cfg.SendTimeout),
		producer.WithQueueSelector(selector),
		producer.WithCreateTopicKey(""),
	}
	if cfg.Credentials.AccessKey != "" {
		opts = append(opts, producer.WithCredentials(cfg.Credentials.library()))
	}
	client, err := producer.NewTransactionProducer(listener, opts...)
	if err != nil {
		return nil, fmt.Errorf("rocketmq: new producer: %w", err)
	}
	return client, nil
}

func (c Credentials) library() primitive.Credentials {
	return primitive.Credentials{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SecurityToken: c.SecurityToken}
}

func instanceName() string { return "txmsg-" + txmsg.NewID() }

// resolver gives the library the name servers in the only form in which it takes host names.
func resolver(nameServers []string) primitive.NsResolver {
	addresses := make([]string, len(nameServers))
	for i, address := range nameServers {
		addresses[i] = "http://" + strings.TrimPrefix(address, "http://")
	}
	return primitive.NewPassthroughResolver(addresses)
}

const (
	// propertyWarmUp marks a message that fetches the route of its topic and is not sent.
	propertyWarmUp = "txmsg-warm-up"
	// propertyFlush marks a message that asks its broker for a topic that does not exist. The broker's answer shows that
	// it has read whatever was written to the connection before.
	propertyFlush = "txmsg-flush"
	flushTopic    = "txmsg-flush"
)

// selector keeps the messages of a key in one queue, and moves on with a second try, since the queue's broker may be down.
type selector struct {
	halves *registry
	warmed func(topic string, brokers []string) // is called for a warm-up whose route was found
}

func (s selector) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	if m.GetProperty(propertyWarmUp) != "" {
		var brokers []string
		for _, queue := range queues {
			brokers = append(brokers, queue.BrokerName)
		}
		s.warmed(m.Topic, brokers)
		return nil
	}
	if broker := m.GetProperty(propertyFlush); broker != "" {
		return &primitive.MessageQueue{Topic: flushTopic, BrokerName: broker}
	}
	key := m.GetShardingKey()
	h := s.halves.get(m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex))
	if key == "" || h == nil || h.try > 1 {
		return queues[rand.IntN(len(queues))]
	}
	hash := fnv.New32a()
	hash.Write([]byte(key))
	return queues[hash.Sum32()%uint32(len(queues))]
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/rocketmq"
	"github.com/txmsg/txmsg-go/txmsg"
)

// transport is the broker between the services: where its topics are made and read.
type transport struct {
	create     func(ctx context.Context, topic string) error
	subscriber func(group, topic string) (consumer.Subscriber, error)
	inProcess  natsgo.InProcessConnProvider // the embedded server, or nil
	close      func()
}

// topicTimeout bounds one try to make a topic at the start.
const topicTimeout = 30 * time.Second

func openTransport(cfg Config, settings txmsg.Settings) (*transport, error) {
	switch broker := settings.Backend()[strings.LastIndex(settings.Backend(), "/")+1:]; broker {
	case "nats":
		return openNATS(cfg, settings)
	case "kafka":
		return openKafka(settings)
	case "rocketmq":
		return openRocketMQ(settings)
	default:
		// Backends.Open says the same of the whole name, with the list of what there is; there is no broker to open.
		return &transport{
			create:     func(context.Context, string) error { return nil },
			subscriber: func(string, string) (consumer.Subscriber, error) { return nil, errors.New("demo: no such broker") },
			close:      func() {},
		}, nil
	}
}

func openNATS(cfg Config, settings txmsg.Settings) (*transport, error) {
	var c nats.Config
	if err := settings.Section("nats", &c); err != nil {
		return nil, err
	}
	t := &transport{close: func() {}}
	if len(c.URLs) == 0 {
		embedded, err := startNATS(cfg)
		if err != nil {
			return nil, err
		}
		t.inProcess = embedded
		t.close = func() { embedded.Shutdown(); embedded.WaitForShutdown() }
	}
	t.create = func(ctx context.Context, topic string) error {
		options := []natsgo.Option{natsgo.UserInfo(c.Auth.Username, c.Auth.Password)}
		if t.inProcess != nil {
			options = append(options, natsgo.InProcessServer(t.inProcess))
		}
		conn, err := natsgo.Connect(strings.Join(c.URLs, ","), options...)
		if err != nil {
			return err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
		return err
	}
	t.subscriber = func(group, topic string) (consumer.Subscriber, error) {
		return nats.NewSubscriber(nats.SubscriberConfig{
			URLs: c.URLs, InProcess: t.inProcess, Auth: c.Auth, TLS: c.TLS,
			Group: group, Topics: []string{topic}, Logger: cfg.Logger,
		})
	}
	return t, nil
}

func startNATS(cfg Config) (*server.Server, error) {
	embedded, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: filepath.Join(cfg.DataDir, "nats"), NoSigs: true,
		SyncAlways: true, // what the relay has deleted is nowhere else
	})
	if err != nil {
		return nil, fmt.Errorf("demo: embedded NATS: %w", err)
	}
	embedded.Start()
	if !embedded.ReadyForConnections(10 * time.Second) {
		embedded.Shutdown()
		return nil, errors.New("demo: embedded NATS is not ready after 10 s")
	}
	return embedded, nil
}

func openKafka(settings txmsg.Settings) (*transport, error) {
	var c kafka.Config
	if err := settings.Section("kafka", &c); err != nil {
		return nil, err
	}
	return &transport{
		create: func(ctx context.Context, topic string) error {
			client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
			if err != nil {
				return err
			}
			defer client.Close()
			admin := kadm.NewClient(client)
			_, err = admin.CreateTopic(ctx, 4, -1, nil, topic)
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return err
			}
			return awaitTopic(ctx, admin, topic)
		},
		subscriber: func(group, topic string) (consumer.Subscriber, error) {
			return kafka.NewSubscriber(kafka.SubscriberConfig{
				Brokers: c.Brokers, TLS: c.TLS, SASL: c.SASL, Group: group, Topics: []string{topic}, Logger: c.Logger,
			})
		},
		close: func() {},
	}, nil
}

// awaitTopic waits until the brokers know a topic, which may be later than its creation is answered.
func awaitTopic(ctx context.Context, admin *kadm.Client, topic string) error {
	for {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		if topics.Has(topic) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func openRocketMQ(settings txmsg.Settings) (*transport, error) {
	var c rocketmq.Config
	if err := settings.Section("rocketmq", &c); err != nil {
		return nil, err
	}
	return &transport{
		create: func(ctx context.Context, topic string) error {
			return rocketmq.CreateTopic(ctx, c.NameServers, topic, 4)
		},
		subscriber: func(group, topic string) (consumer.Subscriber, error) {
			return rocketmq.NewSubscriber(rocketmq.SubscriberConfig{
				NameServers: c.NameServers, Credentials: c.Credentials, Group: group + "-consumer", Topics: []string{topic}, Logger: c.Logger,
			})
		},
		close: func() {},
	}, nil
}

// serviceSettings are the program's settings with what differs between its services.
type serviceSettings struct {
	txmsg.Settings
	group     string
	topic     string // that the service publishes to
	transport *transport
}

// Section implements [txmsg.Settings].
func (s serviceSettings) Section(name string, into any) error {
	err := s.Settings.Section(name, into)
	switch c := into.(type) {
	case *localtable.Config:
		c.Topics = []string{s.topic}
	case *nats.Config:
		c.InProcess = s.transport.inProcess
	case *rocketmq.Config:
		c.Group, c.Topics = s.group, []string{s.topic}
	}
	return err
}

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	rocketconsumer "github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	rocket "github.com/apache/rocketmq-client-go/v2"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/config"
	"github.com/txmsg/txmsg-go/demo"
	"github.com/txmsg/txmsg-go/rocketmq"
	"github.com/txmsg/txmsg-go/txmsg"
)

// readTopics reads the demo's topics from their beginning to their end with the broker's plain client, and none of this
// library's subscribers.
func readTopics(ctx context.Context, d *demo.Demo, source *config.Source) (found []txmsg.Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	read := map[string]func(context.Context, *demo.Demo, *config.Source, string) ([]txmsg.Message, error){
		"nats": readNATS, "kafka": readKafka, "rocketmq": readRocketMQ,
	}[source.Backend()[strings.LastIndex(source.Backend(), "/")+1:]]
	for _, topic := range d.Topics() {
		msgs, err := read(ctx, d, source, topic)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", topic, err)
		}
		found = append(found, msgs...)
	}
	return found, nil
}

func readNATS(ctx context.Context, d *demo.Demo, source *config.Source, topic string) (found []txmsg.Message, err error) {
	var c nats.Config
	if err := source.Section("nats", &c); err != nil {
		return nil, err
	}
	options := []natsgo.Option{natsgo.UserInfo(c.Auth.Username, c.Auth.Password)}
	if embedded := d.EmbeddedNATS(); embedded != nil {
		options = append(options, natsgo.InProcessServer(embedded))
	}
	conn, err := natsgo.Connect(strings.Join(c.URLs, ","), options...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, topic)
	if err != nil {
		return nil, err
	}
	for sequence := uint64(1); sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
		raw, err := stream.GetMsg(ctx, sequence)
		if err != nil {
			return nil, err
		}
		headers := map[string]string{}
		for name := range raw.Header {
			headers[name] = raw.Header.Get(name)
		}
		msg, err := txmsg.FromWire(raw.Subject, raw.Data, headers, "")
		if err != nil {
			return nil, err
		}
		found = append(found, msg)
	}
	return found, nil
}

func readKafka(ctx context.Context, _ *demo.Demo, source *config.Source, topic string) (found []txmsg.Message, err error) {
	var c kafka.Config
	if err := source.Section("kafka", &c); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	var left int64
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			left--
			headers := map[string]string{}
			for _, header := range record.Headers {
				headers[header.Key] = string(header.Value)
			}
			msg, err := txmsg.FromWire(record.Topic, record.Value, headers, "")
			if err != nil {
				return nil, err
			}
			found = append(found, msg)
		}
	}
	return found, nil
}

// quietReader is how long nothing may come until the topic counts as read: the Go client of RocketMQ cannot ask for the end.
const quietReader = 3 * time.Second

func readRocketMQ(ctx context.Context, _ *demo.Demo, source *config.Source, topic string) (found []txmsg.Message, err error) {
	var c rocketmq.Config
	if err := source.Section("rocketmq", &c); err != nil {
		return nil, err
	}
	group := "check-reader-" + txmsg.NewID()
	client, err := rocket.NewPushConsumer(
		rocketconsumer.WithNsResolver(primitive.NewPassthroughResolver(c.NameServers)),
		rocketconsumer.WithGroupName(group), rocketconsumer.WithInstance(group),
		rocketconsumer.WithConsumeFromWhere(rocketconsumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	came := make(chan struct{}, 1)
	err = client.Subscribe(topic, rocketconsumer.MessageSelector{}, func(_ context.Context, batch ...*primitive.MessageExt) (rocketconsumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, raw := range batch {
			msg, err := txmsg.FromWire(raw.Topic, raw.Body, raw.GetProperties(), "")
			if err != nil {
				return rocketconsumer.ConsumeRetryLater, nil
			}
			found = append(found, msg)
		}
		select {
		case came <- struct{}{}:
		default:
		}
		return rocketconsumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = client.Shutdown() }() // it always returns nil
	first := 20 * time.Second                // a group's first rebalance may miss, and comes again after so long
	for quiet := time.NewTimer(first); ; quiet.Reset(quietReader) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-came:
		case <-quiet.C:
			mu.Lock()
			defer mu.Unlock()
			return found, nil
		}
	}
}

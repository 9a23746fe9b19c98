package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 4

// message is what a hand-written relay or a peer hands to the sink.
type message struct {
	key  string
	body []byte
}

// sink is where relays publish to: a topic of Kafka, or nothing at all.
type sink struct {
	address string // of Kafka; empty: nothing
	topic   string
	client  *kgo.Client
	acks    *tracker // counts what was acknowledged; nil when a consumer counts
}

// openSink connects to an existing topic, or to nothing when address is empty.
func openSink(ctx context.Context, address, topic string, acks *tracker) (*sink, error) {
	s := &sink{address: address, topic: topic, acks: acks}
	if address == "" {
		return s, nil
	}
	var err error
	s.client, err = kgo.NewClient(kgo.SeedBrokers(address), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return nil, err
	}
	return s, s.client.Ping(ctx)
}

func (s *sink) close() {
	if s.client != nil {
		s.client.Close()
	}
}

func (s *sink) acknowledged(body []byte) {
	if s.acks != nil {
		s.acks.arrive(orderOf(body))
	}
}

// publish sends one message and waits for its acknowledgement.
func (s *sink) publish(ctx context.Context, m message) error {
	return s.publishAll(ctx, []message{m})
}

// publishAll sends all and waits for all acknowledgements.
func (s *sink) publishAll(ctx context.Context, msgs []message) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	wait.Add(len(msgs))
	for _, m := range msgs {
		s.publishAsync(ctx, m, func(err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
			wait.Done()
		})
	}
	wait.Wait()
	return failed
}

func (s *sink) publishAsync(ctx context.Context, m message, done func(error)) {
	if s.client == nil {
		s.acknowledged(m.body)
		done(nil)
		return
	}
	s.client.Produce(ctx, &kgo.Record{Key: []byte(m.key), Value: m.body}, func(_ *kgo.Record, err error) {
		if err == nil {
			s.acknowledged(m.body)
		}
		done(err)
	})
}

// newTopic makes a topic and returns how to delete it.
func newTopic(ctx context.Context, address string) (topic string, drop func(), err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return "", nil, err
	}
	admin := kadm.NewClient(client)
	topic = fmt.Sprintf("txmsg-bench-%d", time.Now().UnixNano())
	if _, err := admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		client.Close()
		return "", nil, err
	}
	return topic, func() {
		_, _ = admin.DeleteTopics(ctx, topic) // one that stays harms no later measurement
		client.Close()
	}, nil
}

// consume reports what arrives in topic until the returned function is called.
func consume(ctx context.Context, address, topic string, arrivals *tracker) (stop func(), err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() || errors.Is(fetches.Err0(), context.Canceled) {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { arrivals.arrive(orderOf(record.Value)) })
		}
	})
	return func() {
		client.Close()
		wait.Wait()
	}, nil
}

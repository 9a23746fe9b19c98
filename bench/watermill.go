package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
	wm "github.com/ThreeDotsLabs/watermill"
	wmkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	wmmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

// forwarding is watermill-sql with its queue schema and watermill's forwarder, tuned: 1,000 rows a poll, a poll every 10 ms.
type forwarding struct {
	db    *database
	out   *sink
	topic string
}

const forwarderTopic = "fwd"

func openWatermill(db *database, out *sink) (subject, error) {
	f := &forwarding{db: db, out: out, topic: "orders"}
	if out.topic != "" {
		f.topic = out.topic
	}
	return f, nil
}

func (f *forwarding) subscriber() (*wmsql.Subscriber, error) {
	return wmsql.NewSubscriber(wmsql.BeginnerFromPgx(f.db.pool), wmsql.SubscriberConfig{
		SchemaAdapter:    wmsql.PostgreSQLQueueSchema{SubscribeBatchSize: 1000},
		OffsetsAdapter:   wmsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true},
		InitializeSchema: true,
		PollInterval:     10 * time.Millisecond,
	}, wm.NopLogger{})
}

func (f *forwarding) setup(context.Context) error {
	subscriber, err := f.subscriber()
	if err != nil {
		return err
	}
	if err := subscriber.SubscribeInitialize(forwarderTopic); err != nil {
		return err
	}
	return subscriber.Close()
}

func (f *forwarding) write(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, f.db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertOrderSQL, orderArgs(id)...); err != nil {
			return err
		}
		publisher, err := wmsql.NewPublisher(wmsql.TxFromPgx(tx), wmsql.PublisherConfig{SchemaAdapter: wmsql.PostgreSQLQueueSchema{}}, wm.NopLogger{})
		if err != nil {
			return err
		}
		m := wmmessage.NewMessage(wm.NewUUID(), body(id))
		m.Metadata.Set("key", key(id))
		m.SetContext(ctx)
		return forwarder.NewPublisher(publisher, forwarder.PublisherConfig{ForwarderTopic: forwarderTopic}).Publish(f.topic, m)
	})
}

// pendingSQL writes the envelope of the forwarder's publisher.
func (f *forwarding) pendingSQL() string {
	return `INSERT INTO watermill_fwd (uuid, payload, metadata) VALUES (gen_random_uuid()::text, json_build_object(
'destination_topic', '` + f.topic + `', 'uuid', gen_random_uuid()::text,
'payload', replace(encode(convert_to(body(i), 'UTF8'), 'base64'), chr(10), ''),
'metadata', json_build_object('key', ` + keySQL + `)), '{}')`
}

func (f *forwarding) relay(ctx context.Context) error {
	subscriber, err := f.subscriber()
	if err != nil {
		return err
	}
	to := &forwarded{out: f.out}
	if f.out.address != "" {
		cfg := wmkafka.DefaultSaramaSyncPublisherConfig()
		cfg.Producer.RequiredAcks = sarama.WaitForAll
		byKey := func(_ string, m *wmmessage.Message) (string, error) { return m.Metadata.Get("key"), nil }
		to.publisher, err = wmkafka.NewPublisher(wmkafka.PublisherConfig{
			Brokers: []string{f.out.address}, OverwriteSaramaConfig: cfg, Marshaler: wmkafka.NewWithPartitioningMarshaler(byKey),
		}, wm.NopLogger{})
		if err != nil {
			return err
		}
	}
	forward, err := forwarder.NewForwarder(subscriber, to, wm.NopLogger{}, forwarder.Config{ForwarderTopic: forwarderTopic, CloseTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	err = forward.Run(ctx)
	_ = forward.Close()
	_ = subscriber.Close()
	_ = to.Close()
	return err
}

func (*forwarding) close() {}

// forwarded is where the forwarder publishes: with watermill's own Kafka publisher, or nowhere.
type forwarded struct {
	out       *sink
	publisher wmmessage.Publisher
}

// Publish implements watermill's Publisher.
func (f *forwarded) Publish(topic string, msgs ...*wmmessage.Message) error {
	if f.publisher != nil {
		if err := f.publisher.Publish(topic, msgs...); err != nil {
			return err
		}
	}
	for _, m := range msgs {
		f.out.acknowledged(m.Payload)
	}
	return nil
}

// Close implements watermill's Publisher.
func (f *forwarded) Close() error {
	if f.publisher == nil {
		return nil
	}
	return f.publisher.Close()
}

// Package kafka publishes to Apache Kafka and subscribes to it.
//
// [Broker] is what a local message table's relay publishes to. A message is acknowledged once all in-sync replicas have it
// (acks=all, idempotent producer), so it survives what the topic's min.insync.replicas is set for. No topic is
// ever created. [Subscriber] reads topics as a member of a consumer group.
//
// On the wire a message is one record: the key is the record's key, or null when there is none, so that such messages
// spread over the partitions; the body is the value, never null, because a null value is a delete marker to Kafka; the
// other fields and the headers are record headers, see package txmsg.
//
// The idempotent producer keeps no order once the outcome of a request is unknown to the caller. So no caller's context ever
// reaches the client, waits are bounded outside it, and after an outage the next call gets a fresh producer.
//
//	backends := txmsg.Backends[pgx.Tx]{"localtable/kafka": localtable.On(db, kafka.Open)}
//
//	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
//		Brokers: []string{"kafka-1:9092", "kafka-2:9092"},
//		Group:   "payments",
//		Topics:  []string{"orders"},
//	})
//	...
//	err = subscriber.Run(ctx, deliver)
package kafka

// Package nats publishes to NATS JetStream and subscribes to it.
//
// [Broker] is what a local message table's relay publishes to. A topic is a subject, as it stands; a stream that takes the
// subject must be there, none is ever created. A message is acknowledged once the stream has stored it, so it survives
// what the stream's replicas, storage and the server's sync_interval are set for. Its ID is the Nats-Msg-Id: in the
// stream's window for duplicates a second copy is not stored again. Nothing is kept back to be sent after a reconnect.
//
//	backends := txmsg.Backends[pgx.Tx]{"localtable/nats": localtable.On(db, nats.Open)}
//
// [Subscriber] reads topics for a consumer group, each from one position, in the stream's order; the positions are in a
// key-value bucket. One process of a group has a topic at a time, with many keys at once, and others stand by for it.
//
//	subscriber, err := nats.NewSubscriber(nats.SubscriberConfig{
//		URLs:   []string{"nats://nats-1:4222"},
//		Group:  "payments",
//		Topics: []string{"orders"},
//	})
//	...
//	err = subscriber.Run(ctx, deliver)
package nats

// Package rocketmq runs transactions whose messages are RocketMQ half messages, and subscribes to RocketMQ.
//
// Every message is stored in the broker as a half message before COMMIT, and a record of it is written in the
// transaction. After COMMIT the broker is told the outcome. If it is not told, because this process died, the broker asks any
// instance of the group, and the record answers (package checker). So what committed is delivered, what did not is
// never, whoever dies when:
//
//	m, err := rocketmq.New(store, rocketmq.Config{
//		NameServers: []string{"namesrv:9876"}, Group: "orders", Topics: []string{"orders"},
//	})
//	...
//	go m.Run(ctx)
//	err = m.Transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
//		return out.Publish(ctx, txmsg.Message{Topic: "orders", Type: "order.created", Body: body})
//	})
//
// Delivery is at least once and without order. One group belongs to one database. The broker asks a limited number of times
// (transactionCheckMax, 15 by default, every 30 s) and then gives the half up, whether somebody was there to answer or
// not: a service that is down for longer needs its halves rescued from the topic TRANS_CHECK_MAX_TIME_TOPIC.
//
// # What of the client library is guarded against
//
//   - Clients of one process share an object, and with it the first one's listener: each gets an instance name of its own.
//   - It tries again under the same ID, which stores several halves: its retries are off. A new try is a new half, with an ID
//     and a record of its own; the old one has no record and is rolled back.
//   - A nil error does not mean that the half is stored: the send status, and whether the listener was called, are looked at.
//   - The end of the caller's context would close the connection under all other sends: it never reaches the client.
//   - A producer that has sent nothing is asked nothing: it is given the routes of all topics at its start, without sending.
//   - One goroutine answers all checks, and a panic ends it for good: panics are caught, a check's time is bounded, and
//     after a failure of the database checks are answered Unknown for a while without asking it.
//   - Settlements are not acknowledged: Run, before it closes the connections, makes sure that the brokers have read them.
//   - An empty body makes the broker fail: one byte stands for it, with a mark that the subscriber takes away.
//   - It asks a foreign host for name servers if it has none, does not take host names, and creates missing topics: all three
//     are ruled out.
//   - Its log lines hold whole messages, and some end the process: they go through slog with the fields that are safe.
//   - A consumer hands failed messages back 16 times and then takes them away, and calls back in any order: see [Subscriber.Run].
//   - A consumer's shutdown can meet a fetch at a moment at which the process panics: fetching ends first.
//   - A consumer sends its offsets without waiting for answers, at a stop too, and when it gives one queue up it forgets those of
//     the others until their next messages: Run keeps an account of its own, and has the brokers confirm it.
//   - A heartbeat that is under way at a consumer's shutdown can make the broker keep a share of the queues for it for 2 min:
//     the queues are given up first, which waits for it.
//
// Process-wide are the library's logger and panic handler, which the first messenger or subscriber sets. Some goroutines stay
// behind when a client is shut down; package rocketmqtest lists them. There is no TLS: the library does not verify certificates.
package rocketmq

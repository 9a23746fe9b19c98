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
// Delivery is at least once and without order. One group belongs to one database.
//
// Process-wide: the client library has one logger and one panic handler for the process, which the first messenger or
// subscriber sets. It leaves some goroutines behind when it is shut down; package rocketmqtest lists them.
package rocketmq

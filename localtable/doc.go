// Package localtable keeps messages in a table of the service's own database, written in the caller's transaction, and
// relays them to a broker.
//
// What committed is delivered at least once, whatever is killed, paused or cut off, and nothing else ever is. The messages
// of a key reach the broker in the order in which they were written, if their transactions lock the same thing until
// they commit; a message that the broker refuses holds back its own key and no other. A broker that does not answer costs
// no message an attempt.
//
//	m, err := localtable.New(db, broker, localtable.Config{Topics: []string{"orders"}})
//	...
//	go m.Run(ctx) // in as many processes as you like: they share the work
//	err = m.Transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders ..."); err != nil {
//			return err
//		}
//		return out.Publish(ctx, txmsg.Message{Topic: "orders", Key: id, Type: "order.created", Body: body})
//	})
//
// Relays lease lanes, the fixed partitions of the keys, so that one relay at a time sends a key. The relay of a lane reads
// rows that are due, publishes them outside any transaction, and settles the batch in one statement that its lease
// fences. With routes ([NewRouted], [OnRoutes]) one table serves several brokers, and one that is away delays no other.
//
// What the broker refused for good is dead. An [Operator] finds it and retries, skips or releases it. Package storetest tests a
// [Store], package brokertest a [Broker].
package localtable

// Package txmsg is the contract of transactional messaging: a local database transaction and the messages it
// publishes share one fate. The messages are delivered at least once if the transaction committed, and never if it
// did not.
//
// A service calls one interface, [Messenger], and configuration picks the backend that keeps the promise:
//
//	backends := txmsg.Backends[pgx.Tx]{
//		"rocketmq":         rocketmq.On(db),
//		"localtable/kafka": localtable.On(db, kafka.Open),
//	}
//	m, err := backends.Open(ctx, settings)
//	...
//	err = m.Transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders ..."); err != nil {
//			return err
//		}
//		return out.Publish(ctx, txmsg.Message{Topic: "orders", Key: id, Type: "order.created", Body: body})
//	})
//
// The package also declares what every backend needs of a database ([Database]) and the one engine that runs a
// transaction by the rules of the contract ([Transact]).
package txmsg

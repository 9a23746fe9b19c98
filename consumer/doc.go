// Package consumer makes at-least-once delivery harmless: a message's inbox row, its handler's changes and what the handler
// publishes are one transaction, so however often a broker delivers the message, it takes effect once.
//
//	c, err := consumer.New(messenger, db, subscriber,
//		func(ctx context.Context, tx pgx.Tx, msg txmsg.Message, out txmsg.Publisher) error {
//			if _, err := tx.Exec(ctx, "UPDATE account SET ..."); err != nil {
//				return err
//			}
//			return out.Publish(ctx, txmsg.Message{Topic: "payments", Key: msg.Key, Type: "payment.settled"})
//		}, consumer.Config{Name: "payments"})
//	...
//	err = c.Run(ctx)
//
// A handler that returns an error or panics has failed an attempt: its transaction is rolled back, and it is run again after
// a backoff, in this process, while later messages of the key wait. After the last attempt, or at once for
// [Permanent], the message is buried: kept as a dead letter with its errors, and only then acknowledged.
//
// What is not the handler's fault spends no attempt and is waited for as long as it takes: a database or broker that cannot
// be reached, a lost race, a commit whose outcome is not known. After the last the message is run again, which is safe:
// the inbox row was written in the transaction in question, so Mark waits while that is open, finds its row if it
// committed, and finds nothing if it did not. After an attempt has failed the database is asked whether it answers; if it
// does not, the attempt is not counted. A connection that broke and could be made again at once does count.
//
// Attempts are counted in memory: after a restart they begin again. A message that is delivered again after it was buried is
// handled like any other.
//
// When its context ends, Run takes no more messages and gives the handlers under way their time; end the messenger's Run
// after it, so that what they published is still relayed.
package consumer

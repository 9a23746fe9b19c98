// Package checker answers a broker's question for the outcome of a local transaction from the service's own database.
// It knows no broker.
//
// The answer comes from a fence: the check tries to write a rolled-back tombstone under the half's ID, where the transaction
// writes its record. The database lets one of the two in. So a check answers Committed only for a record that it read,
// RolledBack only when its own tombstone stands and no late commit is possible any more, and Unknown for everything
// else: a transaction that is open, a database that fails, a time-out, a panic, a message of another owner. The answers
// Committed and RolledBack never change.
//
//	fence, err := checker.New(store, checker.Config{Group: "orders"})
//	...
//	go fence.Run(ctx) // removes old records
//	verdict := fence.Check(ctx, checker.Half{ID: id, Owner: owner, Message: msg})
//	if verdict.Outcome == txmsg.Committed { ... }
//
// Package storetest tests a [Store] and holds one in memory.
package checker

// Package storetest is the conformance suite for [consumer.Store]: it tests the sentences of that interface on a real
// database. A dialect runs it with a harness of its own:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness[pgx.Tx] {
//			db := open(t) // a schema of its own
//			return storetest.Harness[pgx.Tx]{Store: db, Database: db, Letters: db.letters, Age: db.age}
//		})
//	}
//
// [Memory] is a database in memory that passes the suite, with faults that can be switched on: for tests of handlers and of
// what is built on a store.
package storetest

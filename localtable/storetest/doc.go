// Package storetest is the conformance suite of [localtable.Store]. It tests the sentences of its comments, one file a
// topic, and never sleeps: time moves by the harness.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Harness[*sql.Tx] {
//			db := open(t) // a schema of its own for each test
//			return storetest.Harness[*sql.Tx]{Store: db, Lanes: 1, SingleWriter: true, Age: age(db), …}
//		})
//	}
//
// [Memory] is a store in memory that passes the suite, with faults declared as data, for tests of what stands on a store.
package storetest

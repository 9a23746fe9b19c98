// Package storetest tests a [checker.Store] by the sentences of its contract, and holds [Memory], a store in memory
// for the unit tests of what stands above one.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{
//			Open:  func(t *testing.T) checker.Store[pgx.Tx] { return openSchema(t) },
//			Again: func(t *testing.T, s checker.Store[pgx.Tx]) checker.Store[pgx.Tx] { return reopen(t, s) },
//		})
//	}
package storetest

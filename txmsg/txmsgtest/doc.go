// Package txmsgtest tests backends and the services that use them.
//
// [Run] is the conformance suite: every sentence of the contract in package txmsg is a subtest, and a backend is one if
// all of them pass. A message's absence is proved by a sentinel committed behind it, never by waiting.
//
//	func TestMessenger(t *testing.T) {
//		txmsgtest.Run(t, txmsgtest.Harness[pgx.Tx]{Open: open, Abilities: txmsg.Abilities{Order: true, Delay: true}})
//	}
//
// [Memory] is a Messenger for unit tests that need neither database nor broker. It passes the suite.
//
//	m := txmsgtest.NewMemory()
//	err := m.Transact(ctx, func(ctx context.Context, tx *txmsgtest.Tx, out txmsg.Publisher) error { ... })
//	require.Equal(t, "order.created", m.Published()[0].Type)
package txmsgtest

// Package brokertest is the conformance suite for implementations of localtable.Broker. Each subtest holds one sentence of
// the interface's contract; those named after a public failure case begin with its number.
//
//	func TestBroker(t *testing.T) {
//		address := services.Kafka(t)
//		brokertest.Run(t, brokertest.Harness{
//			Server:    brokertest.Server{Open: open(address), Create: create(address), Read: read(address)},
//			Timeout:   timeout,
//			Oversized: 2 << 20,
//			Faulty:    func(t *testing.T) brokertest.Faulty { ... },
//		})
//	}
//
// What was stored is read back by the harness with a plain client, never by the code under test.
package brokertest

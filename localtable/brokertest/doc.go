// Package brokertest is the conformance suite for implementations of localtable.Broker. Each subtest holds one sentence of
// the interface's contract; those named after a public failure case begin with its number.
//
//	func TestBroker(t *testing.T) { brokertest.Run(t, harness(t)) }
//
//	func TestBrokerRestarts(t *testing.T) {
//		t.Parallel()
//		brokertest.RunRestarts(t, harness(t))
//	}
//
//	func harness(t *testing.T) brokertest.Harness {
//		address := services.Kafka(t)
//		return brokertest.Harness{
//			Server:    brokertest.Server{Open: open(address), Create: create(address), Read: read(address)},
//			Timeout:   timeout,
//			Oversized: 2 << 20,
//			Faulty:    func(t *testing.T) brokertest.Faulty { ... },
//		}
//	}
//
// What was stored is read back by the harness with a plain client, never by the code under test.
package brokertest

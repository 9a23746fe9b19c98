// Package services gives tests the real servers they need, as addresses.
//
// A test asks for a service and gets the first of these that is to be had:
//
//  1. the address in the environment: TXMSG_TEST_POSTGRES, TXMSG_TEST_KAFKA, TXMSG_TEST_NATS, TXMSG_TEST_ROCKETMQ;
//  2. a container, where a Docker engine answers;
//  3. a native process: PostgreSQL, PgBouncer and NATS as installed on the machine, Kafka and RocketMQ on the machine's
//     Java (17 or later) from jars that Maven fetches once into the user's cache folder;
//  4. a skipped test that says what was missing, or a failed one when CI is set: there a test that does not run is a fault.
//
// With -short only the first is tried, so that no test starts a server.
//
// A server that a test binary started is shared by its tests and ends with it, however it ends. Several packages
// share one set of servers when the command starts them beforehand:
//
//	eval "$(go run ./integration/services/cmd/services up)"
//	go test ./...
//	eval "$(go run ./integration/services/cmd/services down)"
//
// A shared server is never harmed by a test. A test that stops, kills or freezes its server starts one of its own
// (StartPostgres, StartKafka, StartNATS, StartRocketMQ), as does one that needs a pooler (StartPgBouncer); a test that harms only the connection puts a Proxy before it.
//
//	func TestRelaySurvivesBrokerCrash(t *testing.T) {
//		dsn := services.Schema(t, services.Postgres(t))
//		broker := services.StartKafka(t, nil)
//		relay(t, dsn, broker.Address())
//		broker.Kill()
//		publish(t, dsn)
//		broker.Restart()
//		requireDelivered(t, broker.Address())
//	}
//
// Native servers need Linux: processes are recognised by what /proc tells about them, so that none but the package's own
// is ever signalled.
package services

// Package fleet lets several relays share one table while they are killed and frozen, their broker is restarted, and
// some messages are refused, all at random and at once.
//
// Relays are child processes, the test binary run again. Writers, which are left in peace, change aggregates and publish what they
// did, and roll some transactions back. At the end a plain reader of the topic and the tables are compared: what was
// delivered is what was committed, without those messages whose attempts ran out, and the first copies of each key came in the
// order in which its aggregate changed.
//
//	TXMSG_FLEET=full TXMSG_FLEET_SEED=7 go test -v ./integration/fleet
package fleet

// Package topic makes topics and reads them with the brokers' own clients, so that a test need not believe the library
// what a broker holds.
//
//	kafka := topic.Kafka(services.Kafka(t))
//	name := kafka.Create(t)
//	...
//	for _, delivery := range kafka.Read(t, name) { ... }
//
// A reader uses no consumer group and keeps nothing in the broker: it begins at the beginning each time.
package topic

import (
	"context"
	"testing"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Broker makes and reads the topics of one server.
type Broker interface {
	// Create makes an empty topic with a name of its own, which ends with t.
	Create(t testing.TB) string
	// CreateNamed makes an empty topic, which ends with t.
	CreateNamed(t testing.TB, name string)
	// Read returns what a topic holds: everything up to the end that it had after the call had begun, in the order of each
	// partition.
	Read(t testing.TB, name string) []txmsg.Delivery
	// Follow sends what a topic holds, and what comes later, until ctx ends; then it closes the channel.
	Follow(ctx context.Context, t testing.TB, name string) <-chan txmsg.Delivery
}

// timeout bounds what one call asks of a server.
const timeout = time.Minute

// newName returns a topic's name that nobody else uses.
func newName() string { return "test-" + txmsg.NewID() }

package localtable

import (
	"context"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Broker is what the relay needs of a message broker. Its methods may be called by many goroutines. Package brokertest
// tests these sentences.
type Broker interface {
	// Publish sends msgs, at most one of each non-empty key, and returns one result for each, in their order. Nil only when
	// the broker has stored the message so that it survives what the broker is configured to survive. Every error
	// wraps one of the classes of package txmsg: ErrOutage, ErrRefused, ErrTooLarge, ErrNoRoute. One message's
	// error says nothing of the others. It returns in bounded time, also when the broker hangs; what was sent and not
	// answered by then is an ErrOutage, and may yet be stored. Storing a message again under the same ID is success.
	Publish(ctx context.Context, msgs []txmsg.Message) []error

	// Check reports, without talking to the broker, why it could never store m: an error of package txmsg.
	Check(m txmsg.Message) error

	// Missing returns those of topics that do not exist, or an ErrOutage, in bounded time. It creates nothing.
	Missing(ctx context.Context, topics []string) ([]string, error)

	// Close frees the connection. Publish afterwards is an ErrOutage.
	Close() error
}

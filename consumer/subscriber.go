package consumer

import (
	"context"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Subscriber is what the pipeline needs of a broker: the messages of some topics for one consumer group.
type Subscriber interface {
	// Run calls deliver for every message until ctx ends; then it takes no more, waits for the calls under way, stores
	// what was acknowledged and returns nil. A broker that does not answer is waited for. deliver runs in several
	// goroutines, but for messages of one key one after the other, in the broker's order. Nil acknowledges. An
	// error does not: the message is delivered again, to this process or another, and no later message of its key
	// is acknowledged before it. The context that deliver gets does not end with ctx.
	Run(ctx context.Context, deliver func(ctx context.Context, delivery txmsg.Delivery) error) error
}

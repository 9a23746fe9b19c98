package nats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/txmsg/txmsg-go/broker/internal/dispatch"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Subscriber reads topics as a member of a consumer group. It implements consumer.Subscriber.
//
// JetStream's own consumers deliver a message that was not acknowledged after the later ones of its key, and share a key's
// messages among processes. So a group's member reads the stream itself, from the group's position on, and the position is
// kept in a key-value bucket. One member at a time has a topic; the others stand by and take over when it leaves, or gives
// no sign of life. The position is that of the first message which is not acknowledged: what is acknowledged behind
// one that is not comes again after a restart or a crash; nothing is ever passed over.
//
// The stream must keep messages by limits (age, size, count), which must leave the group the time it needs.
type Subscriber struct{ cfg SubscriberConfig }

// NewSubscriber checks cfg and returns a subscriber. It does not need the server to be there. All problems of cfg are
// reported together.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: cfg}, nil
}

// Run delivers the topics' messages until ctx ends; see consumer.Subscriber. It returns an error when it cannot go on: a
// topic's stream removes messages as soon as someone has acknowledged them.
func (s *Subscriber) Run(ctx context.Context, deliver func(ctx context.Context, delivery txmsg.Delivery) error) error {
	conn, err := s.cfg.connection().connect(nats.ReconnectHandler(func(conn *nats.Conn) {
		s.cfg.Logger.Info("nats connected", "server", conn.ConnectedUrlRedacted())
	}))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(s.cfg.Timeout))
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	pool := dispatch.NewPool(deliver, s.cfg.Concurrency, s.cfg.RetryPause, s.cfg.Logger)
	owner := txmsg.NewID()
	group, ctx := errgroup.WithContext(ctx)
	for _, topic := range s.cfg.Topics {
		m := &member{cfg: s.cfg, conn: conn, js: js, pool: pool, owner: owner, topic: topic}
		group.Go(func() error { return m.run(ctx) })
	}
	return group.Wait()
}

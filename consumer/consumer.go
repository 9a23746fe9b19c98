package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Handler does the work for one message inside tx and publishes with out what depends on it. It may run more than once for
// a message; only one run is committed. It neither commits nor rolls back tx. Nil commits and acknowledges; an error or a
// panic is a failed attempt. When ctx ends it should return soon.
type Handler[Tx any] func(ctx context.Context, tx Tx, msg txmsg.Message, out txmsg.Publisher) error

// Consumer hands the messages of a subscriber to a handler.
type Consumer[Tx any] struct {
	messenger  messenger[Tx]
	store      Store[Tx]
	subscriber Subscriber
	handler    Handler[Tx]
	cfg        Config
	metrics    metrics
}

// messenger is the part of [txmsg.Messenger] that the pipeline calls.
type messenger[Tx any] interface {
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) error
}

// New returns a Consumer. store must belong to the database whose transactions messenger runs.
func New[Tx any](
	messenger interface {
		Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) error
	},
	store Store[Tx], subscriber Subscriber, handler Handler[Tx], cfg Config,
) (*Consumer[Tx], error) {
	cfg.setDefaults()
	err := cfg.validate()
	if handler == nil {
		err = errors.Join(err, errors.New("consumer: handler must not be nil"))
	}
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg)
	if err != nil {
		return nil, fmt.Errorf("consumer: create metrics: %w", err)
	}
	return &Consumer[Tx]{messenger, store, subscriber, handler, cfg, metrics}, nil
}

// Run consumes until ctx ends and prunes the inbox beside it. A database or broker that does not answer is waited for.
//
// When ctx ends it takes no more messages, and waits for the handlers under way as long as [Config.DrainTimeout] says. What
// could not be finished is not acknowledged and comes again. It returns nil, or an [*AbandonedError] if a handler had
// to be left behind: the only goroutines that outlive Run. Any other error is the subscriber's, which cannot go on.
func (c *Consumer[Tx]) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newRun(c, ctx.Done())

	var background sync.WaitGroup
	background.Go(func() { c.prune(ctx) })
	background.Go(r.drain)

	err := c.subscriber.Run(ctx, r.deliver)
	if err == nil && ctx.Err() == nil {
		err = errors.New("consumer: the subscriber returned before its context ended")
	}
	// A subscriber that cannot go on stops the rest too, by the same rules.
	cancel()
	r.wait()
	close(r.drained)
	background.Wait()
	if left := r.leftBehind(); left != nil {
		return errors.Join(err, left)
	}
	return err
}

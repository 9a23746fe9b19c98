package nats

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Broker publishes to NATS JetStream. Its methods may be called by many goroutines. It implements localtable.Broker.
type Broker struct {
	cfg        Config
	conn       *nats.Conn
	js         jetstream.JetStream
	maxPayload atomic.Int64 // the server's, 0 before it is known

	once    sync.Once
	closing chan struct{} // closed by Close: nobody waits any longer
}

// maxPending is above what callers have in flight: they bound it.
const maxPending = 1 << 20

// Open checks cfg and returns a broker. It does not need the server to be there: until it is, Publish is an outage. All
// problems of cfg are reported together.
func Open(_ context.Context, cfg Config) (*Broker, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, closing: make(chan struct{})}
	learn := func(conn *nats.Conn) {
		b.maxPayload.Store(conn.MaxPayload())
		cfg.Logger.Info("nats connected", "server", conn.ConnectedUrlRedacted())
	}
	conn, err := cfg.connection().connect(nats.ConnectHandler(learn), nats.ReconnectHandler(learn))
	if err != nil {
		return nil, err
	}
	b.conn = conn
	if conn.IsConnected() {
		b.maxPayload.Store(conn.MaxPayload())
	}
	b.js, err = jetstream.New(conn,
		jetstream.WithPublishAsyncTimeout(cfg.PublishTimeout),
		jetstream.WithPublishAsyncMaxPending(maxPending))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("nats: %w", err)
	}
	return b, nil
}

// Check reports why the server could never store m: a size over the limit is an error that wraps [txmsg.ErrTooLarge].
func (b *Broker) Check(m txmsg.Message) error {
	limit := b.cfg.MaxMessageBytes
	if most := int(b.maxPayload.Load()); most > 0 {
		limit = min(limit, most)
	}
	return txmsg.CheckSize(m, limit-overhead(m))
}

// Missing returns those of topics that no stream takes.
func (b *Broker) Missing(ctx context.Context, topics []string) ([]string, error) {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	var missing []string
	for _, topic := range topics {
		stream, err := b.stream(ctx, topic)
		if err != nil {
			return nil, outage(err)
		}
		if stream == "" {
			missing = append(missing, topic)
		}
	}
	return missing, nil
}

// Close ends the connection. Calls under way return at once with what is known.
func (b *Broker) Close() error {
	b.once.Do(func() { close(b.closing) })
	b.conn.Close()
	return nil
}

// bounded returns a context that ends with ctx, the time-out, or Close.
func (b *Broker) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeoutCause(ctx, b.cfg.PublishTimeout, errNoAnswer)
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-b.closing:
			cancel(errClosed)
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		stop()
		<-ended
	}
}

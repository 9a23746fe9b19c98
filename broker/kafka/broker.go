package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Broker publishes to Kafka. Its methods may be called by many goroutines. It implements localtable.Broker.
type Broker struct {
	cfg     Config
	options []kgo.Opt
	closing chan struct{} // closed by Close: nobody waits any longer

	mu      sync.Mutex
	current *producer
	closed  bool
	calls   sync.WaitGroup // those that hold a producer; Add under mu
}

// Open checks cfg and returns a broker. It does not need Kafka to be there: until it is, Publish is an outage. All problems of
// cfg are reported together.
func Open(_ context.Context, cfg Config) (*Broker, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	options, err := cfg.connection().options()
	if err != nil {
		return nil, err
	}
	options = append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(int32(cfg.MaxMessageBytes)),
		// Callers bound what they hold in memory; a full buffer here would only stop them at a bad place.
		kgo.MaxBufferedRecords(1<<20),
		kgo.UnknownTopicRetries(unknownTopicRetries),
		// A gap in the sequence numbers is not papered over: it is an outage, and a fresh producer starts anew.
		kgo.StopProducerOnDataLossDetected(),
	)
	b := &Broker{cfg: cfg, options: options, closing: make(chan struct{})}
	p, err := b.newProducer() // an option that the client refuses stops the start
	if err != nil {
		return nil, err
	}
	b.current = p
	return b, nil
}

// unknownTopicRetries is how often a topic may be unknown before it is said to be missing: a broker that has just started
// may not have heard of it yet. The wait between is metadataMinAge.
const unknownTopicRetries = 2

// Check reports why Kafka could never store m: a size over the limit is an error that wraps [txmsg.ErrTooLarge].
func (b *Broker) Check(m txmsg.Message) error {
	return txmsg.CheckSize(m, b.cfg.MaxMessageBytes-overhead(m))
}

// Publish sends msgs and returns one result for each, within Config.PublishTimeout, or twice that when Kafka refused a
// batch for its size and its members have to be sent apart. Nil means that all in-sync replicas have the message.
// When ctx ends first, what was not answered is an outage.
func (b *Broker) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	pending := make([]item, 0, len(msgs))
	for i, m := range msgs {
		if results[i] = b.refuse(m); results[i] == nil {
			pending = append(pending, item{index: i, record: toRecord(m)})
		}
	}
	b.send(ctx, pending, results)

	var oversized []item
	for _, p := range pending {
		if is(results[p.index], txmsg.ErrTooLarge) {
			oversized = append(oversized, p)
		}
	}
	// Kafka judges a whole batch: its other members share the answer and may be small enough.
	if len(oversized) > 0 && len(pending) > 1 {
		b.sendApart(ctx, oversized, results)
	}
	return results
}

// refuse keeps out what would reach the consumer as something else; a row may have been written past Message.Validate.
func (b *Broker) refuse(m txmsg.Message) error {
	if err := m.Validate(); err != nil {
		return fmt.Errorf("kafka: %w: %w", txmsg.ErrRefused, err)
	}
	if err := b.Check(m); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// send publishes with the shared producer.
func (b *Broker) send(ctx context.Context, items []item, results []error) {
	if len(items) == 0 {
		return
	}
	err := ctx.Err()
	var p *producer
	if err == nil {
		p, err = b.acquire()
	}
	if err != nil {
		fail(items, results, err)
		return
	}
	answered := p.publish(ctx, items, results, b.cfg.PublishTimeout, b.closing)
	b.release(p, !answered)
}

func fail(items []item, results []error, err error) {
	for _, i := range items {
		results[i.index] = outage(err)
	}
}

// Close ends the connections. Calls under way return at once with what is known.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.closing)
	}
	b.mu.Unlock()
	b.calls.Wait()
	b.mu.Lock()
	p := b.current
	b.current = nil
	b.mu.Unlock()
	if p != nil {
		p.client.Close()
	}
	return nil
}

// bounded returns a context for a request other than publishing: it ends with ctx, the time-out, or Close.
func (b *Broker) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.PublishTimeout, errNoAnswer)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-b.closing:
			cancel()
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

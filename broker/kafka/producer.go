package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/txmsg"
)

// item is a record with the place of its result.
type item struct {
	index  int
	record *kgo.Record
}

// producer is one Kafka client: one producer id, one run of sequence numbers. It is shared by the calls that began while it was
// the current one, and closed by the last of them once it is retired. Closing drops what it still holds, so a
// record whose result was an outage is not sent much later.
type producer struct {
	client  *kgo.Client
	dialled atomic.Pointer[error] // how the last attempt to connect ended

	users   int // both under Broker.mu
	retired bool
}

func (b *Broker) newProducer() (*producer, error) {
	p := &producer{}
	client, err := kgo.NewClient(append(slices.Clip(b.options), kgo.WithHooks(p))...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	p.client = client
	return p, nil
}

// OnBrokerConnect implements kgo.HookBrokerConnect, so that an outage can say why.
func (p *producer) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	p.dialled.Store(&err)
}

// acquire returns the current producer, or a new one after an outage.
func (b *Broker) acquire() (*producer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.current == nil {
		p, err := b.newProducer()
		if err != nil {
			return nil, err
		}
		b.current = p
	}
	b.current.users++
	b.calls.Add(1)
	return b.current, nil
}

// release gives p back. retire says that a call on p ended without knowing what became of a record.
func (b *Broker) release(p *producer, retire bool) {
	defer b.calls.Done()
	b.mu.Lock()
	p.users--
	p.retired = p.retired || retire
	if p.retired && b.current == p {
		b.current = nil
	}
	last := p.retired && p.users == 0
	b.mu.Unlock()
	if last {
		p.client.Close()
	}
}

// publish sends items and waits, no longer than timeout, until each has a result. It reports whether none of them was an
// outage.
//
// The records get a context that never ends: the client cannot take back what may have been sent, and once
// told to, it loses step with the broker's sequence numbers and reports records as stored that are not.
func (p *producer) publish(ctx context.Context, items []item, results []error, timeout time.Duration, closing <-chan struct{}) bool {
	answers := &answers{err: make([]error, len(items)), known: make([]bool, len(items)), missing: len(items), done: make(chan struct{})}
	for i, item := range items {
		p.client.TryProduce(context.Background(), item.record, func(_ *kgo.Record, err error) { answers.set(i, err) })
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var reason error
	select {
	case <-answers.done:
	case <-timer.C:
		reason = p.silence(timeout)
	case <-ctx.Done():
		reason = context.Cause(ctx)
	case <-closing:
		reason = errClosed
	}
	return answers.collect(items, results, reason)
}

func (p *producer) silence(timeout time.Duration) error {
	if dialled := p.dialled.Load(); dialled != nil && *dialled != nil {
		return fmt.Errorf("no answer in %v: %w", timeout, *dialled)
	}
	return fmt.Errorf("no answer in %v", timeout)
}

// answers are the client's, for one call. It outlives the call when some come late.
type answers struct {
	mu      sync.Mutex
	err     []error
	known   []bool
	missing int
	done    chan struct{}
}

func (a *answers) set(i int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err[i], a.known[i] = err, true
	if a.missing--; a.missing == 0 {
		close(a.done)
	}
}

func (a *answers) collect(items []item, results []error, reason error) (answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answered = true
	for i, item := range items {
		if a.known[i] {
			results[item.index] = classify(item.record.Topic, a.err[i])
		} else {
			results[item.index] = outage(reason)
		}
		answered = answered && !is(results[item.index], txmsg.ErrOutage)
	}
	return answered
}

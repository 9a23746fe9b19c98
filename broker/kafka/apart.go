package kafka

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/txmsg"
)

// sendApart sends items, which Kafka refused for the size of their batch, by halves until it is known which of them are too
// large themselves. It uses a producer of its own: on the shared one, records of other calls would get into the batches.
func (b *Broker) sendApart(ctx context.Context, items []item, results []error) {
	p, err := b.newProducer()
	if err != nil {
		fail(items, results, err)
		return
	}
	defer p.client.Close()
	// The large ones end up in few halves when they stand together.
	slices.SortStableFunc(items, func(x, y item) int { return cmp.Compare(len(y.record.Value), len(x.record.Value)) })
	s := splitter{broker: b, producer: p, results: results, deadline: time.Now().Add(b.cfg.PublishTimeout)}
	s.halve(ctx, items)
}

type splitter struct {
	broker   *Broker
	producer *producer
	results  []error
	deadline time.Time
}

func (s *splitter) halve(ctx context.Context, items []item) {
	middle := (len(items) + 1) / 2
	s.send(ctx, items[:middle])
	s.send(ctx, items[middle:])
}

func (s *splitter) send(ctx context.Context, items []item) {
	if len(items) == 0 {
		return
	}
	if ctx.Err() != nil || !time.Now().Before(s.deadline) {
		fail(items, s.results, errNoAnswer)
		return
	}
	for i, item := range items {
		r := item.record
		items[i].record = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	}
	answered := s.producer.publish(ctx, items, s.results, time.Until(s.deadline), s.broker.closing)
	var large []item
	for _, item := range items {
		if is(s.results[item.index], txmsg.ErrTooLarge) {
			large = append(large, item)
		}
	}
	switch {
	case len(items) == 1 || len(large) == 0:
	case !answered: // a producer with an open outcome is not used again, so nobody can say which of them is large
		s.deadline = time.Time{}
		fail(large, s.results, errNoAnswer)
	default:
		s.halve(ctx, large)
	}
}

package demo

import (
	"context"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Probe is what a check learns of a running demo, and where it can disturb it. Its fields may be nil; those that are not
// are called by many goroutines.
type Probe struct {
	// Committed hears of every message whose transaction has just been committed.
	Committed func(msg txmsg.Message)
	// Consumed hears of every message that a handler is given, each time it is.
	Consumed func(msg txmsg.Message)
	// Broker stands between a relay and its broker.
	Broker func(localtable.Broker) localtable.Broker
}

// probed is open with the probe's broker before the one that it opens.
func probed[C any, B localtable.Broker](probe Probe, open func(context.Context, C) (B, error)) func(context.Context, C) (localtable.Broker, error) {
	return func(ctx context.Context, cfg C) (localtable.Broker, error) {
		broker, err := open(ctx, cfg)
		if err != nil || probe.Broker == nil {
			return broker, err
		}
		return probe.Broker(broker), nil
	}
}

// messenger tells a probe what was committed.
type messenger[Tx any] struct {
	txmsg.Messenger[Tx]
	probe Probe
}

func (m messenger[Tx]) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx, out txmsg.Publisher) error) error {
	if m.probe.Committed == nil {
		return m.Messenger.Transact(ctx, fn)
	}
	var published recorder
	err := m.Messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		published = recorder{Publisher: out}
		return fn(ctx, tx, &published)
	})
	if err == nil {
		for _, msg := range published.msgs {
			m.probe.Committed(msg)
		}
	}
	return err
}

type recorder struct {
	txmsg.Publisher
	msgs []txmsg.Message
}

func (r *recorder) Publish(ctx context.Context, msgs ...txmsg.Message) error {
	err := r.Publisher.Publish(ctx, msgs...)
	if err == nil {
		r.msgs = append(r.msgs, msgs...)
	}
	return err
}

// heard is handler with the probe before it.
func heard[Tx any](probe Probe, handler consumer.Handler[Tx]) consumer.Handler[Tx] {
	if probe.Consumed == nil {
		return handler
	}
	return func(ctx context.Context, tx Tx, msg txmsg.Message, out txmsg.Publisher) error {
		probe.Consumed(msg)
		return handler(ctx, tx, msg, out)
	}
}

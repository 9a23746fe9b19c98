package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// sabotage returns what spoils a relay in the way that is asked for, or nil for none: the check must see it.
func sabotage(kind, backend string) (func(localtable.Broker) localtable.Broker, error) {
	spoil, ok := map[string]func(txmsg.Message) []txmsg.Message{
		"drop":   func(txmsg.Message) []txmsg.Message { return nil },
		"invent": func(msg txmsg.Message) []txmsg.Message { return []txmsg.Message{msg, invented(msg)} },
	}[kind]
	switch {
	case kind == "":
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("sabotage must be drop or invent, got %q", kind)
	case !strings.HasPrefix(backend, "localtable/"):
		return nil, fmt.Errorf("sabotage spoils a relay, and backend %q has none", backend)
	}
	once := &atomic.Int64{}
	return func(broker localtable.Broker) localtable.Broker {
		return &saboteur{Broker: broker, seen: once, spoil: spoil}
	}, nil
}

// victim is the number of the message that is spoiled, counted over both relays.
const victim = 100

type saboteur struct {
	localtable.Broker
	seen  *atomic.Int64
	spoil func(txmsg.Message) []txmsg.Message
}

func (s *saboteur) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := make([]error, len(msgs))
	for i, msg := range msgs {
		sent := []txmsg.Message{msg}
		if s.seen.Add(1) == victim {
			sent = s.spoil(msg)
		}
		for _, one := range sent {
			if err := s.Broker.Publish(ctx, []txmsg.Message{one})[0]; err != nil {
				results[i] = err
			}
		}
	}
	return results
}

// invented is a message of an order that nobody placed.
func invented(msg txmsg.Message) txmsg.Message {
	msg.ID, msg.Key, msg.Type = txmsg.NewID(), txmsg.NewID(), "order.created"
	msg.Body = fmt.Appendf(nil, `{"id":%q,"order_id":%q,"amount":100}`, msg.Key, msg.Key)
	return msg
}

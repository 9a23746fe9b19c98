package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Publish sends msgs and returns one result for each, within Config.PublishTimeout, or twice that when the connection takes
// no more bytes. Nil means that the topic's stream has
// stored the message, or had done so before: within the stream's window for duplicates a second copy of an ID is not
// stored again. When ctx ends first, what was not answered is an outage.
func (b *Broker) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	results := make([]error, len(msgs))
	futures := make([]jetstream.PubAckFuture, len(msgs))
	var lost error // an outage met while sending: nothing after it is tried, each try could block
	for i, m := range msgs {
		if results[i] = b.refuse(m); results[i] != nil {
			continue
		}
		if lost == nil {
			lost = b.ready(ctx)
		}
		if lost != nil {
			results[i] = outage(lost)
			continue
		}
		// The client's retry after "no responders" would send again after this call had returned.
		future, err := b.js.PublishMsgAsync(toMsg(m), jetstream.WithRetryAttempts(0))
		if results[i] = classify(m.Topic, err); results[i] == nil {
			futures[i] = future
		} else if errors.Is(results[i], txmsg.ErrOutage) {
			lost = err
		}
	}
	routes := map[string]error{}
	for i, future := range futures {
		if future != nil {
			err := await(ctx, future)
			if errors.Is(err, jetstream.ErrNoStreamResponse) {
				results[i] = b.unanswered(ctx, msgs[i].Topic, routes)
			} else {
				results[i] = classify(msgs[i].Topic, err)
			}
		}
	}
	return results
}

// refuse keeps out what would reach the consumer as something else; a row may have been written past Message.Validate.
func (b *Broker) refuse(m txmsg.Message) error {
	if err := m.Validate(); err != nil {
		return fmt.Errorf("nats: %w: %w", txmsg.ErrRefused, err)
	}
	if err := b.Check(m); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// ready says why nothing can be sent. Asking first matters before the first connection, when the client knows nothing of the
// server and has other errors for it.
func (b *Broker) ready(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case b.conn.IsClosed():
		return errClosed
	case !b.conn.IsConnected():
		if err := b.conn.LastError(); err != nil {
			return fmt.Errorf("%w: %w", errNotConnected, err)
		}
		return errNotConnected
	}
	return nil
}

// await prefers an answer that is there to the end of ctx.
func await(ctx context.Context, future jetstream.PubAckFuture) error {
	stored, failed := future.Ok(), future.Err()
	select {
	case <-stored:
		return nil
	case err := <-failed:
		return err
	default:
	}
	select {
	case <-stored:
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unanswered finds out why nobody listens on topic: "no responders" is said when no stream takes it, when the stream has no
// leader, and when JetStream is off, and only the first is about the topic. JetStream itself is asked; routes
// keeps the answers of one call.
func (b *Broker) unanswered(ctx context.Context, topic string, routes map[string]error) error {
	err, asked := routes[topic]
	if !asked {
		var stream string
		stream, err = b.stream(ctx, topic)
		switch {
		case err != nil:
			err = outage(fmt.Errorf("no stream answers on %q: %w", topic, err))
		case stream == "":
			err = fmt.Errorf("nats: %w: no stream takes subject %q", txmsg.ErrNoRoute, topic)
		default:
			err = outage(fmt.Errorf("stream %q does not answer on %q", stream, topic))
		}
		routes[topic] = err
	}
	return err
}

// stream returns the name of the stream that takes topic, "" when there is none.
func (b *Broker) stream(ctx context.Context, topic string) (string, error) {
	if err := b.ready(ctx); err != nil {
		return "", err
	}
	stream, err := b.js.StreamNameBySubject(ctx, topic)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", nil
	}
	return stream, err
}

func toMsg(m txmsg.Message) *nats.Msg {
	header := make(nats.Header, len(m.Headers)+txmsg.OwnHeaders+1)
	for name, value := range txmsg.ToWire(m) {
		header[name] = []string{value}
	}
	header[jetstream.MsgIDHeader] = []string{m.ID}
	return &nats.Msg{Subject: m.Topic, Header: header, Data: m.Body}
}

// overhead is what the header block holds beside what Message.Size counts.
func overhead(m txmsg.Message) int {
	const (
		block      = len("NATS/1.0\r\n") + len("\r\n")
		separators = len(": ") + len("\r\n")
	)
	return block + separators*(len(m.Headers)+txmsg.OwnHeaders+1) + len(jetstream.MsgIDHeader) + len(m.ID)
}

package nats

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/txmsg/txmsg-go/txmsg"
)

// The server's error codes for a message that a stream will never take.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeHeadersTooLarge jetstream.ErrorCode = 10097
)

// classify translates what the client says of one message. Whatever is not known to be an answer about this message is an
// outage. So are the server's own troubles (codes from 500 on): a full or stopped stream takes none of its messages
// and none of them is at fault.
func classify(topic string, err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("nats: subject %q: %w: %w", topic, txmsg.ErrTooLarge, err)
	case errors.As(err, &api):
		switch {
		case api.ErrorCode == codeMessageTooLarge || api.ErrorCode == codeHeadersTooLarge:
			return fmt.Errorf("nats: subject %q: %w: %w", topic, txmsg.ErrTooLarge, err)
		case api.Code >= 500:
			return outage(err)
		default:
			return fmt.Errorf("nats: subject %q: %w: %w", topic, txmsg.ErrRefused, err)
		}
	// Someone who is no stream answers requests on this subject.
	case errors.Is(err, jetstream.ErrInvalidJSAck), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrInvalidMsg):
		return fmt.Errorf("nats: subject %q: %w: %w", topic, txmsg.ErrRefused, err)
	default:
		return outage(err)
	}
}

func outage(err error) error {
	return fmt.Errorf("nats: %w: %w", txmsg.ErrOutage, err)
}

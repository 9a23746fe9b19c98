package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/txmsg/txmsg-go/txmsg"
)

// classify translates what the client says of one record. Whatever is not known to be an answer about this record or its
// topic is an outage: it spends nothing, and the next call starts with a fresh producer. Refused credentials are one,
// because no message is at fault and all wait for the same repair.
func classify(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case is(err, kerr.MessageTooLarge, kerr.RecordListTooLarge):
		return fmt.Errorf("kafka: topic %q: %w: %w", topic, txmsg.ErrTooLarge, err)
	case is(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID):
		return fmt.Errorf("kafka: %w %q: %w", txmsg.ErrNoRoute, topic, err)
	case is(err, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidRecord, kerr.InvalidTimestamp,
		kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType, kerr.CorruptMessage):
		return fmt.Errorf("kafka: topic %q: %w: %w", topic, txmsg.ErrRefused, err)
	default:
		return outage(err)
	}
}

func outage(err error) error {
	return fmt.Errorf("kafka: %w: %w", txmsg.ErrOutage, err)
}

func is(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

var (
	errClosed   = errors.New("the broker's client is closed")
	errNoAnswer = errors.New("no answer in time")
)

package rocketmq

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/txmsg"
)

// StoreError is returned by Transact when a half message could not be stored, so that the transaction was rolled back.
// It wraps a class of package txmsg: [txmsg.ErrOutage], [txmsg.ErrRefused], [txmsg.ErrNoRoute].
type StoreError struct {
	MessageID string
	Topic     string
	Tries     int
	Err       error
}

func (e *StoreError) Error() string {
	return fmt.Sprintf("rocketmq: store message %s on %s in %d tries: %v", e.MessageID, e.Topic, e.Tries, e.Err)
}

func (e *StoreError) Unwrap() error { return e.Err }

// MissingTopicsError is returned by Run and Transact when topics of the configuration do not exist and
// Config.AllowMissing is not set. It wraps [txmsg.ErrNoRoute].
type MissingTopicsError struct{ Topics []string }

func (e *MissingTopicsError) Error() string {
	return fmt.Sprintf("rocketmq: %v: %s", txmsg.ErrNoRoute, strings.Join(e.Topics, ", "))
}

func (e *MissingTopicsError) Unwrap() error { return txmsg.ErrNoRoute }

// errNotSent: the half was given up before it was sent.
var errNotSent = errors.New("not sent")

// answerCode finds the broker's code in the text of the client's error: it has no other place there.
var answerCode = regexp.MustCompile(`^CODE: (\d+)\s*, DESC:`)

// interpretSend translates what the client said of a try to store a half. An error that is not the broker's own is an
// outage: the half may or may not be stored.
func interpretSend(result *primitive.TransactionSendResult, err error) error {
	if err == nil && result != nil && result.SendResult != nil && result.Status == primitive.SendOK {
		return nil
	}
	if err == nil {
		if result == nil || result.SendResult == nil {
			return fmt.Errorf("%w: no answer", txmsg.ErrOutage)
		}
		// The client has said "rolled back" for these without asking us: disk or slave did not confirm in time.
		return fmt.Errorf("%w: send status %d: not on disk or not on the slave", txmsg.ErrOutage, result.Status)
	}
	match := answerCode.FindStringSubmatch(err.Error())
	if match == nil {
		return fmt.Errorf("%w: %w", txmsg.ErrOutage, err)
	}
	switch match[1] {
	case "13": // message illegal
		return fmt.Errorf("%w: %w", txmsg.ErrRefused, err)
	case "16": // no permission: rejectTransactionMessage, or a topic that may not be written
		return fmt.Errorf("%w: %w", txmsg.ErrRefused, err)
	case "17": // topic does not exist
		return fmt.Errorf("%w: %w", txmsg.ErrNoRoute, err)
	default: // busy, shutting down, disk full, internal errors
		return fmt.Errorf("%w: %w", txmsg.ErrOutage, err)
	}
}

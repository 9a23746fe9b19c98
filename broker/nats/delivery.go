package nats

import (
	"crypto/sha256"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/txmsg/txmsg-go/txmsg"
)

// toDelivery reads a message, also one that another program wrote. Of a header with several values it takes the last.
func toDelivery(msg jetstream.Msg, meta *jetstream.MsgMetadata) txmsg.Delivery {
	headers := make(map[string]string, len(msg.Headers()))
	for name, values := range msg.Headers() {
		if len(values) > 0 {
			headers[name] = values[len(values)-1]
		}
	}
	m, err := txmsg.FromWire(msg.Subject(), msg.Data(), headers, foreignID(meta))
	return txmsg.Delivery{
		Message:   m,
		Malformed: err,
		Source: txmsg.Source{
			Broker: "nats", Topic: msg.Subject(), Partition: meta.Stream, Offset: int64(meta.Sequence.Stream),
		},
	}
}

// foreignID makes an ID of a message's place; the time tells places of a stream that was deleted and made again apart.
func foreignID(meta *jetstream.MsgMetadata) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UnixNano()))
	return fmt.Sprintf("nats-%x", sum[:16])
}

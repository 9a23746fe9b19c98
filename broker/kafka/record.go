package kafka

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/txmsg"
)

func toRecord(m txmsg.Message) *kgo.Record {
	record := &kgo.Record{Topic: m.Topic, Value: m.Body}
	if record.Value == nil {
		record.Value = []byte{} // null is a delete marker
	}
	if m.Key != "" {
		record.Key = []byte(m.Key)
	}
	record.Headers = make([]kgo.RecordHeader, 0, len(m.Headers)+txmsg.OwnHeaders)
	for name, value := range txmsg.ToWire(m) {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return record
}

// overhead is an upper bound of what a batch of this one record holds beside what Message.Size counts: the batch's header, the
// record's lengths and deltas, and the lengths of each header's name and value.
func overhead(m txmsg.Message) int {
	const (
		batchHeader  = 61
		recordFields = 1 + 10 + 5*5 // attributes, timestamp, and five lengths and deltas
		headerFields = 2 * 5
	)
	return batchHeader + recordFields + headerFields*(len(m.Headers)+txmsg.OwnHeaders)
}

// toDelivery reads a record, also one that another program wrote: its key is then the message's, if it is text.
func toDelivery(record *kgo.Record) txmsg.Delivery {
	headers := make(map[string]string, len(record.Headers))
	for _, header := range record.Headers {
		headers[header.Key] = string(header.Value)
	}
	m, err := txmsg.FromWire(record.Topic, record.Value, headers, foreignID(record))
	if m.Key == "" && len(record.Key) <= txmsg.MaxKeyBytes && utf8.Valid(record.Key) {
		m.Key = string(record.Key)
	}
	return txmsg.Delivery{
		Message:   m,
		Malformed: err,
		Source: txmsg.Source{
			Broker: "kafka", Topic: record.Topic, Partition: strconv.Itoa(int(record.Partition)), Offset: record.Offset,
		},
	}
}

// foreignID makes an ID of a record's place; the time tells places of a topic that was deleted and made again apart.
func foreignID(record *kgo.Record) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d/%d", record.Topic, record.Partition, record.Offset, record.Timestamp.UnixMilli()))
	return fmt.Sprintf("kafka-%x", sum[:16])
}

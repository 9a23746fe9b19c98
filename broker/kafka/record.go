package kafka

import (
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
	headers := txmsg.ToWire(m)
	record.Headers = make([]kgo.RecordHeader, 0, len(headers))
	for name, value := range headers {
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
		ownHeaders   = 4
	)
	return batchHeader + recordFields + headerFields*(len(m.Headers)+ownHeaders)
}

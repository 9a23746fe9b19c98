package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/broker/internal/dispatch"
)

// partition is one that this member owns.
type partition struct {
	at     place
	member *member
	queue  *dispatch.Queue

	mu     sync.Mutex
	paused bool
	gone   bool
}

func newPartition(m *member, at place) *partition {
	p := &partition{at: at, member: m}
	p.queue = dispatch.NewQueue(m.pool, p.resume)
	return p
}

func (p *partition) add(ctx context.Context, records []*kgo.Record) {
	for _, record := range records {
		delivery := toDelivery(record)
		key := delivery.Message.Key
		if len(record.Key) > 0 {
			key = string(record.Key)
		}
		// Not the record itself, whose body would be kept until then.
		mark := &kgo.Record{Topic: record.Topic, Partition: record.Partition, LeaderEpoch: record.LeaderEpoch, Offset: record.Offset}
		p.queue.Add(ctx, key, delivery, func() { p.member.client.MarkCommitRecords(mark) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused && !p.gone && p.queue.Full(p.member.cfg.Buffer) {
		p.paused = true
		p.member.client.PauseFetchPartitions(p.names())
	}
}

// resume reads on when half of the buffer is free again.
func (p *partition) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused && !p.queue.Full((p.member.cfg.Buffer+1)/2) {
		p.paused = false
		p.member.client.ResumeFetchPartitions(p.names())
	}
}

// forget undoes a pause, which would outlive the ownership.
func (p *partition) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.paused {
		p.paused = false
		p.member.client.ResumeFetchPartitions(p.names())
	}
}

func (p *partition) names() map[string][]int32 {
	return map[string][]int32{p.at.topic: {p.at.number}}
}

package rocketmq

import (
	"testing"

	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	one, two := primitive.MessageQueue{Topic: "t", QueueId: 1}, primitive.MessageQueue{Topic: "t", QueueId: 2}
	other := primitive.MessageQueue{Topic: "other", QueueId: 1}
	message := func(queue primitive.MessageQueue, offset int64) *primitive.MessageExt {
		return &primitive.MessageExt{Message: primitive.Message{Queue: &queue}, QueueOffset: offset}
	}
	fetch := func(p *progress, queue primitive.MessageQueue, offsets ...int64) {
		batch := &hooks.FilterMessageContext{MQ: &queue}
		for _, offset := range offsets {
			batch.Msg = append(batch.Msg, message(queue, offset))
		}
		msgs, err := p.fetch(batch)
		require.NoError(t, err)
		require.Equal(t, batch.Msg, msgs)
	}
	acknowledge := func(p *progress, queue primitive.MessageQueue, offsets ...int64) {
		for _, offset := range offsets {
			p.acknowledge(message(queue, offset))
		}
	}
	// allocate shares the queues of t among members; this one is "a".
	allocate := func(p *progress, members ...string) []*primitive.MessageQueue {
		return p.allocate("group", "a", []*primitive.MessageQueue{&one, &two}, members)
	}
	alone := func() *progress {
		p := newProgress()
		require.Len(t, allocate(p, "a"), 2)
		p.allocate("group", "a", []*primitive.MessageQueue{&other}, []string{"a"})
		return p
	}
	type offsets = map[primitive.MessageQueue]int64

	t.Run("is the first that is not acknowledged, in each queue", func(t *testing.T) {
		p := alone()
		require.Empty(t, p.offsets(), "nothing is known of a queue before its first message")
		fetch(p, one, 10, 11, 13)
		fetch(p, two, 0)
		require.Equal(t, offsets{one: 10, two: 0}, p.offsets())
		acknowledge(p, one, 13, 10)
		acknowledge(p, two, 0)
		require.Equal(t, offsets{one: 11, two: 1}, p.offsets())
		acknowledge(p, one, 11)
		require.Equal(t, offsets{one: 14, two: 1}, p.offsets())
	})
	t.Run("leaves out what another member has, and begins anew when it comes back", func(t *testing.T) {
		p := alone()
		fetch(p, one, 1)
		fetch(p, two, 2)
		fetch(p, other, 3)
		require.Equal(t, []*primitive.MessageQueue{&one}, allocate(p, "a", "b"))
		fetch(p, two, 4)
		acknowledge(p, two, 2)
		require.Equal(t, offsets{one: 1, other: 3}, p.offsets())
		allocate(p, "a")
		require.Equal(t, offsets{one: 1, other: 3}, p.offsets())
		fetch(p, two, 7)
		require.Equal(t, offsets{one: 1, two: 7, other: 3}, p.offsets())
	})
	t.Run("leaves all queues to others at the end", func(t *testing.T) {
		p := alone()
		fetch(p, one, 1)
		p.giveUp()
		require.Empty(t, allocate(p, "a"))
		require.Empty(t, p.offsets())
	})
	t.Run("goes back with a queue that is reset", func(t *testing.T) {
		p := alone()
		fetch(p, one, 100, 101)
		acknowledge(p, one, 100, 101)
		fetch(p, one, 5, 6)
		acknowledge(p, one, 5, 6)
		require.Equal(t, offsets{one: 7}, p.offsets())
	})
}

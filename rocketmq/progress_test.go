package rocketmq

import (
	"testing"

	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	one, two := &primitive.MessageQueue{Topic: "t", QueueId: 1}, &primitive.MessageQueue{Topic: "t", QueueId: 2}
	other := &primitive.MessageQueue{Topic: "other", QueueId: 1}
	// again is what a queue that comes back is to the library.
	again := func(queue *primitive.MessageQueue) *primitive.MessageQueue {
		next := *queue
		return &next
	}
	message := func(queue *primitive.MessageQueue, offset int64) *primitive.MessageExt {
		return &primitive.MessageExt{Message: primitive.Message{Queue: queue}, QueueOffset: offset}
	}
	fetch := func(p *progress, queue *primitive.MessageQueue, offsets ...int64) {
		batch := &hooks.FilterMessageContext{MQ: queue}
		for _, offset := range offsets {
			batch.Msg = append(batch.Msg, message(queue, offset))
		}
		msgs, err := p.fetch(batch)
		require.NoError(t, err)
		require.Equal(t, batch.Msg, msgs)
	}
	deliver := func(p *progress, queue *primitive.MessageQueue, offsets ...int64) {
		for _, offset := range offsets {
			p.deliver(message(queue, offset))
		}
	}
	acknowledge := func(p *progress, queue *primitive.MessageQueue, offsets ...int64) {
		deliver(p, queue, offsets...)
		for _, offset := range offsets {
			p.acknowledge(message(queue, offset))
		}
	}
	// allocate shares the queues of t among members; this one is "a".
	allocate := func(p *progress, members ...string) []*primitive.MessageQueue {
		return p.allocate("group", "a", []*primitive.MessageQueue{one, two}, members)
	}
	alone := func() *progress {
		p := newProgress()
		require.Len(t, allocate(p, "a"), 2)
		p.allocate("group", "a", []*primitive.MessageQueue{other}, []string{"a"})
		return p
	}
	type offsets = map[primitive.MessageQueue]int64

	t.Run("is the first that is not acknowledged, in each queue", func(t *testing.T) {
		p := alone()
		fetch(p, one, 10, 11, 13)
		fetch(p, two, 0)
		fetch(p, other)
		require.Empty(t, p.offsets(), "nothing is known of a queue before its first delivery")
		deliver(p, one, 10, 13, 11)
		deliver(p, two, 0)
		require.Equal(t, offsets{*one: 10, *two: 0}, p.offsets())
		acknowledge(p, one, 13, 10)
		acknowledge(p, two, 0)
		require.Equal(t, offsets{*one: 11, *two: 1}, p.offsets())
		acknowledge(p, one, 11)
		require.Equal(t, offsets{*one: 14, *two: 1}, p.offsets())
		fetch(p, one, 20)
		require.Equal(t, offsets{*one: 20, *two: 1}, p.offsets())
	})
	t.Run("leaves out what another member has, and begins anew when it comes back", func(t *testing.T) {
		p := alone()
		for i, queue := range []*primitive.MessageQueue{one, two, other} {
			fetch(p, queue, int64(i+1), 4)
			deliver(p, queue, int64(i+1))
		}
		require.Equal(t, []*primitive.MessageQueue{one}, allocate(p, "a", "b"))
		fetch(p, two, 5)
		acknowledge(p, two, 2)
		require.Equal(t, offsets{*one: 1, *other: 3}, p.offsets())
		allocate(p, "a")
		acknowledge(p, two, 4)
		require.Equal(t, offsets{*one: 1, *other: 3}, p.offsets())
		back := again(two)
		fetch(p, back, 7)
		deliver(p, back, 7)
		require.Equal(t, offsets{*one: 1, *two: 7, *other: 3}, p.offsets())
	})
	// A batch is late when its queue has gone and come back since it was asked for.
	for name, known := range map[string]bool{"with earlier batches": true, "without": false} {
		lost := func() *progress {
			p := alone()
			if known {
				fetch(p, one, 78, 79)
				acknowledge(p, one, 79) // 78 is being delivered
				deliver(p, one, 78)
			}
			require.Empty(t, allocate(p, "0", "1", "a"))
			allocate(p, "a")
			return p
		}
		t.Run("does not skip to a late batch of an ownership "+name, func(t *testing.T) {
			for _, lateFirst := range []bool{true, false} {
				p, back := lost(), again(one)
				if lateFirst {
					fetch(p, one, 200, 231)
				}
				fetch(p, back, 80, 111)
				if !lateFirst {
					fetch(p, one, 200, 231)
				}
				acknowledge(p, back, 80)
				acknowledge(p, one, 78)
				require.Equal(t, offsets{*one: 111}, p.offsets())
				acknowledge(p, back, 111)
				require.Equal(t, offsets{*one: 112}, p.offsets())
				fetch(p, one, 232)
				fetch(p, back, 112)
				require.Equal(t, offsets{*one: 112}, p.offsets())
				acknowledge(p, back, 112)
				require.Equal(t, offsets{*one: 113}, p.offsets())
			}
		})
		t.Run("does not stay at a late batch of an ownership "+name, func(t *testing.T) {
			p, back := lost(), again(one)
			fetch(p, back, 80, 111)
			acknowledge(p, back, 80, 111)
			fetch(p, one, 80, 111)
			require.Equal(t, offsets{*one: 112}, p.offsets())
		})
	}
	t.Run("leaves all queues to others at the end", func(t *testing.T) {
		p := alone()
		fetch(p, one, 1)
		deliver(p, one, 1)
		p.giveUp()
		require.Empty(t, allocate(p, "a"))
		require.Empty(t, p.offsets())
	})
	t.Run("goes back with a queue that is reset", func(t *testing.T) {
		p, reset := alone(), again(one)
		fetch(p, one, 100, 101)
		acknowledge(p, one, 100, 101)
		fetch(p, reset, 5, 6)
		acknowledge(p, reset, 5, 6)
		require.Equal(t, offsets{*one: 7}, p.offsets())
	})
	t.Run("goes forward with a queue that is reset", func(t *testing.T) {
		p, reset := alone(), again(one)
		fetch(p, one, 100, 101, 102)
		acknowledge(p, one, 100)
		deliver(p, one, 101)
		fetch(p, reset, 500, 501)
		deliver(p, reset, 500)
		require.Equal(t, offsets{*one: 500}, p.offsets())
		acknowledge(p, one, 101)
		acknowledge(p, reset, 500)
		require.Equal(t, offsets{*one: 501}, p.offsets())
	})
}

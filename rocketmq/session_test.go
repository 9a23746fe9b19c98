package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func TestSession(t *testing.T) {
	queue := &primitive.MessageQueue{Topic: "orders"}
	// fetch returns the message at an offset as the library hands it over.
	fetch := func(s *session, offset int64) *primitive.MessageExt {
		m := &primitive.MessageExt{QueueOffset: offset}
		m.Topic, m.Queue, m.Body = queue.Topic, queue, []byte("body of a")
		m.WithProperties(plainMessage(message("a")).GetProperties())
		_, err := s.progress.fetch(&hooks.FilterMessageContext{MQ: queue, Msg: []*primitive.MessageExt{m}})
		require.NoError(t, err)
		return m
	}
	consume := func(s *session, offset int64) (result consumer.ConsumeResult, returned bool) {
		m := fetch(s, offset)
		done := make(chan struct{})
		go func() {
			defer close(done)
			result, _ = s.consume(context.Background(), m)
			returned = true
		}()
		<-done
		return result, returned
	}
	newSession := func(deliver func(context.Context, txmsg.Delivery) error) *session {
		s := &session{
			deliver: deliver, ctx: context.Background(), stop: make(chan struct{}),
			calls: newGate(), order: newOrder(), progress: newProgress(), logger: slog.New(slog.DiscardHandler),
		}
		s.progress.allocate("group", "a", []*primitive.MessageQueue{queue}, []string{"a"})
		return s
	}
	stored := func(s *session) int64 { return s.progress.offsets()[*queue] }
	t.Run("delivers again, as it was, after an error and after a panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var bodies []string
			var before []int64
			var s *session
			s = newSession(func(_ context.Context, d txmsg.Delivery) error {
				before = append(before, stored(s))
				bodies = append(bodies, string(d.Message.Body))
				d.Message.Body[0] = 'X'
				switch len(bodies) {
				case 1:
					return errFn
				case 2:
					panic("boom")
				}
				return nil
			})
			result, returned := consume(s, 5)
			require.True(t, returned)
			require.Equal(t, consumer.ConsumeSuccess, result)
			require.Equal(t, []string{"body of a", "body of a", "body of a"}, bodies)
			require.Equal(t, []int64{5, 5, 5}, before, "neither an error nor a panic acknowledges")
			require.EqualValues(t, 6, stored(s))
		})
	})
	t.Run("does not acknowledge what fails when it stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSession(func(context.Context, txmsg.Delivery) error { return errFn })
			time.AfterFunc(time.Minute, func() {
				s.calls.close()
				close(s.stop)
			})
			_, returned := consume(s, 5)
			require.False(t, returned, "returning acknowledges")
			_, returned = consume(s, 6)
			require.False(t, returned)
			require.EqualValues(t, 5, stored(s))
		})
	})
	for name, unconfirmed := range map[string]error{"gives its queues up": nil, "keeps its queues if offsets are not confirmed": errFn} {
		t.Run("stores at its end what was acknowledged, and then "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSession(func(context.Context, txmsg.Delivery) error {
					time.Sleep(time.Minute)
					return nil
				})
				client := &fakeConsumer{progress: s.progress, queue: queue}
				ended := make(chan struct{})
				time.AfterFunc(time.Second, func() {
					defer close(ended)
					s.end(client, func(ctx context.Context, offsets map[primitive.MessageQueue]int64) error {
						client.acts = append(client.acts, fmt.Sprint("store ", offsets[*queue]))
						return unconfirmed
					})
				})
				_, returned := consume(s, 5)
				require.True(t, returned, "a call under way acknowledges")
				_, returned = consume(s, 6)
				require.False(t, returned)
				<-ended
				want := []string{"suspend", "store 6", "rebalance to 0 queues", "shutdown"}
				if unconfirmed != nil {
					want = slices.Delete(want, 2, 3)
				}
				require.Equal(t, want, client.acts)
			})
		})
	}
}

// fakeConsumer is a client that has one queue.
type fakeConsumer struct {
	progress *progress
	queue    *primitive.MessageQueue
	acts     []string
}

func (c *fakeConsumer) Suspend() { c.acts = append(c.acts, "suspend") }

func (c *fakeConsumer) Rebalance() {
	left := c.progress.allocate("group", "a", []*primitive.MessageQueue{c.queue}, []string{"a"})
	c.acts = append(c.acts, fmt.Sprint("rebalance to ", len(left), " queues"))
}

func (c *fakeConsumer) Shutdown() error {
	c.acts = append(c.acts, "shutdown")
	return nil
}

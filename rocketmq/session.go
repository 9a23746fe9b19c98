package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/txmsg"
)

// session is one Run.
type session struct {
	deliver  func(ctx context.Context, delivery txmsg.Delivery) error
	ctx      context.Context // what deliver gets
	stop     chan struct{}   // closed when no more is delivered
	calls    *gate           // deliver calls under way
	order    *order
	progress *progress
	group    string
	logger   *slog.Logger
}

// consume is called by the library with one message, in a goroutine of that message's own. Returning acknowledges it: so
// on shutdown the goroutine ends without returning. The message then stays where it is, and the next owner of its queue begins
// with it.
func (s *session) consume(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	for _, m := range msgs {
		if !s.consumeOne(m) {
			runtime.Goexit()
		}
	}
	return consumer.ConsumeSuccess, nil
}

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

func (s *session) consumeOne(m *primitive.MessageExt) (acknowledged bool) {
	s.progress.deliver(m)
	d := delivery(m)
	leave := s.order.enter(m, d.Message.Key)
	defer leave()
	for attempt := 0; ; attempt++ {
		if !s.calls.enter() {
			return false
		}
		err := s.call(d)
		if err == nil {
			s.progress.acknowledge(m) // within the call, which the end of Run waits for
		}
		s.calls.leave()
		if err == nil {
			return true
		}
		s.logger.Debug("delivery refused", "message_id", d.Message.ID, "topic", d.Message.Topic, "attempt", attempt+1, "error", err)
		pause := min(firstRetry<<min(attempt, 10), lastRetry)
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-s.stop:
			timer.Stop()
			return false
		}
	}
}

// call gives deliver a copy of its own, so that the next attempt gets what the broker sent.
func (s *session) call(d txmsg.Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rocketmq: deliver panicked: %v", p)
			s.logger.Error("deliver panicked", "message_id", d.Message.ID, "topic", d.Message.Topic,
				"error", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	d.Message = d.Message.Clone()
	return s.deliver(s.ctx, d)
}

// libraryConsumer is what is used of the library's push consumer.
type libraryConsumer interface {
	Suspend()   // fetches no more
	Rebalance() // asks progress.allocate for the queues, and tells the brokers if they have changed
	Shutdown() error
}

const (
	// noteAcks is what the client gets to note the last acknowledgements; it has no signal for that. What it misses comes again:
	// the offsets that it sends when it leaves come after ours.
	noteAcks     = 100 * time.Millisecond
	storeTimeout = 5 * time.Second
)

// end stops the session and shuts its client down. First nothing more is fetched and no further call of deliver begins, then the
// calls under way are waited for: from then on the offsets are final. store makes the brokers confirm them before others can
// take the queues over, which they do when these are given up, or at Shutdown.
func (s *session) end(client libraryConsumer, store func(context.Context, map[primitive.MessageQueue]int64) error) {
	client.Suspend()
	drained := s.order.stop()
	calls := s.calls.close()
	close(s.stop)
	<-calls
	select {
	case <-drained:
	case <-time.After(lost): // the library has dropped some
	}
	sleep(s.ctx, noteAcks)
	ctx, cancel := context.WithTimeout(s.ctx, storeTimeout)
	defer cancel()
	if err := store(ctx, s.progress.offsets()); err != nil {
		// The offsets that the client sends in Shutdown are the last chance. So the queues are not given up: it would forget
		// the offsets of all but one.
		s.logger.Warn("offsets not confirmed: acknowledged messages may come again", "group", s.group, "error", err)
	} else {
		// A heartbeat that is under way in Shutdown may reach the broker after the end of the connection has: the broker then
		// takes the consumer for a member for 2 min more, and nobody gets its share of the queues. Rebalance, when there are queues
		// to give up, sends heartbeats of its own: it waits for the one under way first, and then for their answers.
		s.progress.giveUp()
		client.Rebalance()
	}
	if err := client.Shutdown(); err != nil {
		s.logger.Warn("consumer not shut down: acknowledged messages may come again", "group", s.group, "error", err)
	}
}

package rocketmq

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

// listener is what the library calls: when a half is stored, and when the broker asks about one. A panic must not
// reach the library from either: it would end the only goroutine that answers checks.
type listener struct {
	halves  *registry
	hold    time.Duration
	check   func(ctx context.Context, half checker.Half) checker.Verdict
	checks  *gate
	metrics *metrics
	cfg     *Config
}

var _ primitive.TransactionListener = (*listener)(nil)

// ExecuteLocalTransaction runs in the half's own goroutine and blocks until the transaction that published it has ended.
func (l *listener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	h := l.halves.get(m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex))
	if h == nil { // none of ours was sent: a flush that found its topic
		return primitive.RollbackMessageState
	}
	h.answer(nil)
	timer := time.NewTimer(l.hold)
	defer timer.Stop()
	select {
	case <-h.settled:
		l.metrics.settled(h.outcome)
		return state(h.outcome)
	case <-timer.C:
		l.metrics.settled(txmsg.Unknown)
		l.cfg.Logger.Warn("half left to a check: its transaction takes too long",
			"half_id", h.id, "message_id", h.message.ID, "topic", h.message.Topic)
		return primitive.UnkonwnState
	}
}

// CheckLocalTransaction runs in the one goroutine that answers all checks of this client.
func (l *listener) CheckLocalTransaction(m *primitive.MessageExt) (answer primitive.LocalTransactionState) {
	answer = primitive.UnkonwnState
	if !l.checks.enter() {
		return answer
	}
	defer l.checks.leave()
	defer func() {
		if p := recover(); p != nil {
			l.cfg.Logger.Error("check panicked", "error", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer = primitive.UnkonwnState
		}
	}()
	half := readHalf(m)
	if l.halves.isOpen(half.ID) {
		l.metrics.checkedOpen()
		return answer
	}
	return state(l.check(context.Background(), half).Outcome)
}

func state(outcome txmsg.Outcome) primitive.LocalTransactionState {
	switch outcome {
	case txmsg.Committed:
		return primitive.CommitMessageState
	case txmsg.RolledBack:
		return primitive.RollbackMessageState
	default:
		return primitive.UnkonwnState
	}
}

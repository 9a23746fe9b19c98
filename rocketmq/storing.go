package rocketmq

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/txmsg/txmsg-go/txmsg"
)

// storing stores halves, each in a goroutine of its own that ends when the half is settled.
type storing struct {
	halves  *registry
	calls   *gate
	slots   chan struct{} // of halves being stored; one that waits for its transaction takes none
	cfg     *Config
	metrics *metrics
}

// start stores h in the background. The caller's context does not reach the client, which would close the connection
// under all others when it ends.
func (s *storing) start(client sender, owner string, h *half) error {
	if !s.calls.enter() {
		return fmt.Errorf("rocketmq: %w", txmsg.ErrClosed)
	}
	s.halves.add(h)
	go func() {
		defer s.calls.leave()
		defer s.halves.returned(h)
		s.store(client, owner, h)
	}()
	return nil
}

func (s *storing) store(client sender, owner string, h *half) {
	defer func() {
		// The client panics after the settlement on an answer that it cannot read. If the half was stored, its answer
		// stands; what was not told to the broker, a check decides.
		if p := recover(); p != nil {
			h.answer(fmt.Errorf("%w: client panicked: %v", txmsg.ErrOutage, p))
			s.cfg.Logger.Error("client panicked while it stored a half",
				"half_id", h.id, "message_id", h.message.ID, "error", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	select {
	case s.slots <- struct{}{}:
		h.freeSlot = func() { <-s.slots }
	case <-h.settled:
		h.answer(errNotSent)
		return
	}
	select {
	case <-h.settled: // given up while it waited
		h.answer(errNotSent)
		return
	default:
	}
	result, err := client.SendMessageInTransaction(context.Background(), halfMessage(h, owner, int(s.cfg.Immunity.Seconds())))
	h.answer(interpretSend(result, err))
	s.metrics.stored(h.err)
}

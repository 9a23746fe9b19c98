package order

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Payment is what the service reads of the payment service's messages.
type Payment struct {
	OrderID string `json:"order_id"`
	Reason  string `json:"reason"`
}

// outcomes are the payment events that decide an order. Others, such as a refund, do not change it.
var outcomes = map[string]State{"payment.succeeded": Paid, "payment.failed": Failed}

// Handle applies one message of the payment service. An order that its customer has cancelled keeps that state: the payment
// service learns of it from the cancellation itself, and gives the money back.
func (s *Service[Tx]) Handle(ctx context.Context, tx Tx, msg txmsg.Message, _ txmsg.Publisher) error {
	to, ok := outcomes[msg.Type]
	if !ok {
		return nil
	}
	var payment Payment
	if err := json.Unmarshal(msg.Body, &payment); err != nil {
		return consumer.Permanent(fmt.Errorf("order: payment event: %w", err))
	}
	passage, err := s.guard.Move(ctx, row[Tx]{s, tx, payment.OrderID, payment.Reason}, string(to))
	if err == nil && passage == consumer.Missing {
		return consumer.Permanent(fmt.Errorf("order: payment event for %q: %w", payment.OrderID, ErrNotFound))
	}
	return err
}

// row is one order inside a transaction, as [consumer.Guard] moves it.
type row[Tx any] struct {
	service *Service[Tx]
	tx      Tx
	id      string
	reason  string
}

// Move implements [consumer.Row].
func (r row[Tx]) Move(ctx context.Context, to string, from []string) (bool, error) {
	for _, state := range from {
		rows, err := r.service.db.Exec(ctx, r.tx,
			"UPDATE orders SET state = $1, reason = $2, version = version + 1 WHERE id = $3 AND state = $4", to, r.reason, r.id, state)
		if err != nil || rows == 1 {
			return rows == 1, err
		}
	}
	return false, nil
}

// State implements [consumer.Row].
func (r row[Tx]) State(ctx context.Context) (string, bool, error) {
	var current Order
	found, err := r.service.find(ctx, r.tx, "id", r.id, &current)
	return string(current.State), found, err
}

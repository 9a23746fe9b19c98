// Package payment is the demo's payment service: it reads what the order service announces, charges a pretend provider, and
// announces what came of it. It knows no broker and no backend.
package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/demo/sqldb"
	"github.com/txmsg/txmsg-go/txmsg"
)

// State of a payment.
type State string

// The states of a payment. Void: the cancellation came first, nothing was charged.
const (
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Refunded  State = "refunded"
	Void      State = "void"
)

// Payment is one order's payment, as the table keeps it and as messages carry it: its type is "payment." and the state.
type Payment struct {
	OrderID string `json:"order_id"`
	Amount  int64  `json:"amount"` // in cents
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version"`
}

// order is what the service reads of the order service's messages.
type order struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

const ddl = `CREATE TABLE IF NOT EXISTS payment (
	order_id text PRIMARY KEY,
	amount bigint NOT NULL,
	state text NOT NULL,
	reason text NOT NULL,
	version bigint NOT NULL
)`

// tries is how often an unanswered charge is asked again before it is voided.
const tries = 3

// Service keeps payments. Its methods may be called by many goroutines.
type Service[Tx any] struct {
	db       sqldb.DB[Tx]
	provider *Provider
	topic    string
}

// New returns a service that announces its payments in topic. It makes its table.
func New[Tx any](ctx context.Context, db sqldb.DB[Tx], provider *Provider, topic string) (*Service[Tx], error) {
	if err := db.Create(ctx, ddl); err != nil {
		return nil, fmt.Errorf("payment: create table: %w", err)
	}
	return &Service[Tx]{db: db, provider: provider, topic: topic}, nil
}

// Handle applies one message of the order service: the payment's row and what is announced of it are one act. Creation
// and cancellation may come in any order, since not every backend keeps it.
func (s *Service[Tx]) Handle(ctx context.Context, tx Tx, msg txmsg.Message, out txmsg.Publisher) error {
	var o order
	if err := json.Unmarshal(msg.Body, &o); err != nil {
		return consumer.Permanent(fmt.Errorf("payment: order event: %w", err))
	}
	var p Payment
	found, err := s.db.Find(ctx, tx, "SELECT order_id, amount, state, reason, version FROM payment WHERE order_id = $1",
		[]any{o.ID}, &p.OrderID, &p.Amount, &p.State, &p.Reason, &p.Version)
	if err != nil {
		return err
	}
	switch {
	case msg.Type == "order.created" && !found:
		p, err = s.charge(ctx, o)
		if err != nil {
			return err
		}
		return s.insert(ctx, tx, out, p)
	case msg.Type == "order.cancelled" && !found:
		return s.insert(ctx, tx, out, Payment{OrderID: o.ID, Amount: o.Amount, State: Void, Version: 1})
	case msg.Type == "order.cancelled" && p.State == Succeeded:
		return s.refund(ctx, tx, out, p)
	}
	return nil
}

// charge asks the provider. A charge that stays unanswered is voided before the payment fails: it may have been made.
func (s *Service[Tx]) charge(ctx context.Context, o order) (Payment, error) {
	p := Payment{OrderID: o.ID, Amount: o.Amount, State: Succeeded, Version: 1}
	var err error
	for range tries {
		if err = s.provider.Charge(ctx, o.ID, o.Amount); !errors.Is(err, ErrTimeout) {
			break
		}
	}
	switch {
	case errors.Is(err, ErrTimeout):
		s.provider.Void(o.ID)
		fallthrough
	case errors.Is(err, ErrDeclined):
		p.State, p.Reason = Failed, err.Error()
		return p, nil
	}
	return p, err
}

func (s *Service[Tx]) refund(ctx context.Context, tx Tx, out txmsg.Publisher, p Payment) error {
	rows, err := s.db.Exec(ctx, tx, "UPDATE payment SET state = $1, version = version + 1 WHERE order_id = $2 AND state = $3",
		string(Refunded), p.OrderID, string(Succeeded))
	if err != nil || rows == 0 {
		return err
	}
	s.provider.Void(p.OrderID)
	p.State, p.Version = Refunded, p.Version+1
	return s.announce(ctx, out, p)
}

func (s *Service[Tx]) insert(ctx context.Context, tx Tx, out txmsg.Publisher, p Payment) error {
	_, err := s.db.Exec(ctx, tx, "INSERT INTO payment (order_id, amount, state, reason, version) VALUES ($1, $2, $3, $4, $5)",
		p.OrderID, p.Amount, string(p.State), p.Reason, p.Version)
	if err != nil {
		return err
	}
	return s.announce(ctx, out, p)
}

// All returns every payment by its order's ID.
func (s *Service[Tx]) All(ctx context.Context) (map[string]Payment, error) {
	payments := map[string]Payment{}
	err := s.db.Each(ctx, "SELECT order_id, amount, state, reason, version FROM payment", nil, func(scan func(...any) error) error {
		var p Payment
		if err := scan(&p.OrderID, &p.Amount, &p.State, &p.Reason, &p.Version); err != nil {
			return err
		}
		payments[p.OrderID] = p
		return nil
	})
	return payments, err
}

func (s *Service[Tx]) announce(ctx context.Context, out txmsg.Publisher, p Payment) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return out.Publish(ctx, txmsg.Message{
		Topic: s.topic, Key: p.OrderID, Type: "payment." + string(p.State), Sequence: p.Version, Body: body,
	})
}

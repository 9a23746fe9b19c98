package order

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/demo/sqldb"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Service keeps orders. Its methods may be called by many goroutines.
type Service[Tx any] struct {
	db        sqldb.DB[Tx]
	messenger txmsg.Messenger[Tx]
	guard     *consumer.Guard
	topic     string
}

// New returns a service that announces its orders in topic. It makes its table.
func New[Tx any](ctx context.Context, db sqldb.DB[Tx], messenger txmsg.Messenger[Tx], topic string) (*Service[Tx], error) {
	if err := db.Create(ctx, ddl); err != nil {
		return nil, fmt.Errorf("order: create table: %w", err)
	}
	guard, err := consumer.NewGuard(map[string][]string{string(Pending): {string(Paid), string(Failed), string(Cancelled)}})
	if err != nil {
		return nil, err
	}
	return &Service[Tx]{db: db, messenger: messenger, guard: guard, topic: topic}, nil
}

// Place saves an order and announces it, both or neither. The same key again returns the order of the first time and
// false; with another request it is an [ErrKeyReused].
func (s *Service[Tx]) Place(ctx context.Context, key string, request Request) (placed Order, fresh bool, err error) {
	id := txmsg.NewID()
	err = s.messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		found, err := s.find(ctx, tx, "idempotency_key", key, &placed)
		if err != nil || found {
			fresh = false
			return err
		}
		fresh = true
		placed = Order{
			ID: id, Customer: request.Customer, Amount: request.Amount,
			State: Pending, Version: 1, Created: time.Now().UTC().Truncate(time.Microsecond),
		}
		_, err = s.db.Exec(ctx, tx, "INSERT INTO orders ("+columns+", idempotency_key) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			placed.ID, placed.Customer, placed.Amount, string(placed.State), placed.Reason, placed.Version, placed.Created.UnixMicro(), key)
		if err != nil {
			return err
		}
		return s.announce(ctx, out, TypeCreated, placed)
	})
	if s.db.Duplicate(err) { // the same key at the same time: the other one won
		fresh = false
		err = s.messenger.Transact(ctx, func(ctx context.Context, tx Tx, _ txmsg.Publisher) error {
			_, err := s.find(ctx, tx, "idempotency_key", key, &placed)
			return err
		})
	}
	if err != nil {
		return Order{}, false, err
	}
	if !fresh && (placed.Customer != request.Customer || placed.Amount != request.Amount) {
		return Order{}, false, ErrKeyReused
	}
	return placed, fresh, nil
}

// Cancel cancels a pending order and announces it. An order that is cancelled already is returned as it is; any other
// state is an [ErrNotPending].
func (s *Service[Tx]) Cancel(ctx context.Context, id string) (Order, error) {
	var cancelled Order
	err := s.messenger.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		passage, err := s.guard.Move(ctx, row[Tx]{s, tx, id, ""}, string(Cancelled))
		if err != nil {
			return err
		}
		if passage == consumer.Missing {
			return ErrNotFound
		}
		if _, err := s.find(ctx, tx, "id", id, &cancelled); err != nil {
			return err
		}
		switch passage {
		case consumer.Moved:
			return s.announce(ctx, out, TypeCancelled, cancelled)
		case consumer.Duplicate:
			return nil
		default:
			return fmt.Errorf("%w: it is %s", ErrNotPending, cancelled.State)
		}
	})
	return cancelled, err
}

// Get returns the order, or an [ErrNotFound].
func (s *Service[Tx]) Get(ctx context.Context, id string) (Order, error) {
	orders, err := s.read(ctx, "WHERE id = $1", id)
	if err == nil && len(orders) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Order{}, err
	}
	return orders[0], nil
}

// List returns the newest orders, at most limit.
func (s *Service[Tx]) List(ctx context.Context, limit int) ([]Order, error) {
	return s.read(ctx, "ORDER BY created DESC, id DESC LIMIT $1", limit)
}

// All returns every order, the newest first.
func (s *Service[Tx]) All(ctx context.Context) ([]Order, error) {
	return s.read(ctx, "ORDER BY created DESC, id DESC")
}

// Counts returns the number of orders by state.
func (s *Service[Tx]) Counts(ctx context.Context) (map[State]int, error) {
	counts := map[State]int{Pending: 0, Paid: 0, Failed: 0, Cancelled: 0}
	err := s.db.Each(ctx, "SELECT state, count(*) FROM orders GROUP BY state", nil, func(scan func(...any) error) error {
		var state State
		var count int
		if err := scan(&state, &count); err != nil {
			return err
		}
		counts[state] = count
		return nil
	})
	return counts, err
}

func (s *Service[Tx]) read(ctx context.Context, clause string, args ...any) ([]Order, error) {
	orders := []Order{}
	err := s.db.Each(ctx, "SELECT "+columns+" FROM orders "+clause, args, func(scan func(...any) error) error {
		var o Order
		var created int64
		if err := scan(o.scanned(&created)...); err != nil {
			return err
		}
		o.Created = time.UnixMicro(created).UTC()
		orders = append(orders, o)
		return nil
	})
	return orders, err
}

func (s *Service[Tx]) find(ctx context.Context, tx Tx, column, value string, into *Order) (bool, error) {
	var created int64
	found, err := s.db.Find(ctx, tx, "SELECT "+columns+" FROM orders WHERE "+column+" = $1", []any{value}, into.scanned(&created)...)
	into.Created = time.UnixMicro(created).UTC()
	return found, err
}

func (s *Service[Tx]) announce(ctx context.Context, out txmsg.Publisher, event string, o Order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return out.Publish(ctx, txmsg.Message{Topic: s.topic, Key: o.ID, Type: event, Sequence: o.Version, Body: body})
}

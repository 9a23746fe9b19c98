// Package order is the demo's order service: an HTTP API over a table of its own, which announces what happens to its
// orders and learns of payments by messages alone. It knows no broker and no backend.
package order

import (
	"errors"
	"time"
)

// Types of the messages that the service publishes. Their body is an [Order] as JSON.
const (
	TypeCreated   = "order.created"
	TypeCancelled = "order.cancelled"
)

// State of an order. It begins as pending; the others are final.
type State string

// The states of an order.
const (
	Pending   State = "pending"
	Paid      State = "paid"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Order is one order as the API shows it and as messages carry it.
type Order struct {
	ID       string    `json:"id"`
	Customer string    `json:"customer"`
	Amount   int64     `json:"amount"` // in cents
	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"` // why it failed
	Version  int64     `json:"version"`          // grows with every change; the sequence of its messages
	Created  time.Time `json:"created"`
}

// Request is what a customer asks for.
type Request struct {
	Customer string `json:"customer"`
	Amount   int64  `json:"amount"` // in cents, above 0
}

// MaxAmount is the highest amount of one order, in cents.
const MaxAmount = 1_000_000_00

var (
	// ErrNotFound: there is no order of that ID.
	ErrNotFound = errors.New("no such order")
	// ErrNotPending: only a pending order can be cancelled.
	ErrNotPending = errors.New("the order is not pending")
	// ErrKeyReused: the idempotency key came before, with another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
)

const ddl = `CREATE TABLE IF NOT EXISTS orders (
	id text PRIMARY KEY,
	idempotency_key text NOT NULL UNIQUE,
	customer text NOT NULL,
	amount bigint NOT NULL,
	state text NOT NULL,
	reason text NOT NULL,
	version bigint NOT NULL,
	created bigint NOT NULL
)`

const columns = "id, customer, amount, state, reason, version, created"

// scanned is an Order and where its columns go.
func (o *Order) scanned(created *int64) []any {
	return []any{&o.ID, &o.Customer, &o.Amount, &o.State, &o.Reason, &o.Version, created}
}

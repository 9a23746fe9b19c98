package demo

import (
	"context"

	"github.com/txmsg/txmsg-go/demo/order"
	"github.com/txmsg/txmsg-go/demo/payment"
	"github.com/txmsg/txmsg-go/demo/sqldb"
)

// Tables are what the services' databases hold.
type Tables struct {
	Orders   []order.Order
	Payments map[string]payment.Payment // by order
	Written  int                        // messages that committed transactions have written, in both databases
	Unsent   int                        // of those, not yet known to be with the broker; local table only
	Consumed int                        // inbox rows
	Dead     int                        // dead letters
}

func readTables[Tx any](ctx context.Context, databases []*database[Tx], orders *order.Service[Tx], payments *payment.Service[Tx]) (Tables, error) {
	var t Tables
	var err error
	if t.Orders, err = orders.All(ctx); err != nil {
		return t, err
	}
	if t.Payments, err = payments.All(ctx); err != nil {
		return t, err
	}
	for _, db := range databases {
		status, err := db.messages.Status(ctx)
		if err != nil {
			return t, err
		}
		unsent := int(status.Ready + status.Waiting + status.Retry + status.Parked + status.Dead)
		t.Unsent += unsent
		t.Written += unsent
		for _, count := range []struct {
			tables []string
			into   *int
		}{
			{db.sent, &t.Written},
			{[]string{"txmsg_inbox"}, &t.Consumed},
			{[]string{"txmsg_dead_letter"}, &t.Dead},
		} {
			for _, table := range count.tables {
				n, err := countRows(ctx, db.sql, "SELECT count(*) FROM "+table)
				if err != nil {
					return t, err
				}
				*count.into += n
			}
		}
	}
	return t, nil
}

func countRows[Tx any](ctx context.Context, db sqldb.DB[Tx], query string) (n int, err error) {
	err = db.Each(ctx, query, nil, func(scan func(...any) error) error { return scan(&n) })
	return n, err
}

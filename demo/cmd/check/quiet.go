package main

import (
	"context"
	"time"

	"github.com/txmsg/txmsg-go/demo"
	"github.com/txmsg/txmsg-go/demo/order"
	"github.com/txmsg/txmsg-go/demo/payment"
)

// waitForQuiet reads the tables until no order waits for anything and every message has been consumed, or patience ends.
func waitForQuiet(ctx context.Context, d *demo.Demo, patience time.Duration) (tables demo.Tables, quiet bool, err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		tables, err = d.Tables(ctx)
		if err != nil || isQuiet(tables) {
			return tables, err == nil, err
		}
		select {
		case <-ctx.Done():
			return tables, false, ctx.Err()
		case <-deadline.C:
			return tables, false, nil
		case <-tick.C:
		}
	}
}

// isQuiet reports whether every order is decided, every payment knows of a cancellation, and every message that follows
// from that has been consumed.
func isQuiet(t demo.Tables) bool {
	if t.Unsent > 0 || pending(t) > 0 {
		return false
	}
	for _, o := range t.Orders {
		p, ok := t.Payments[o.ID]
		if !ok || o.State == order.Cancelled && p.State == payment.Succeeded {
			return false
		}
	}
	return t.Consumed+t.Dead >= len(expected(t))
}

func pending(t demo.Tables) (n int) {
	for _, o := range t.Orders {
		if o.State == order.Pending {
			n++
		}
	}
	return n
}

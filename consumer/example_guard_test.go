package consumer_test

import (
	"context"
	"fmt"

	"github.com/txmsg/txmsg-go/consumer"
)

// A handler moves an order by the events of its payment, in whatever order and however often they come.
func ExampleGuard_Move() {
	guard, err := consumer.NewGuard(map[string][]string{
		"pending": {"paid", "failed", "cancelled"},
		"paid":    {"shipped"},
	})
	if err != nil {
		panic(err)
	}
	order := &memoryRow{state: "pending"} // in a handler: the order's row in its transaction
	for _, state := range []string{"shipped", "paid", "paid", "shipped", "paid", "cancelled"} {
		passage, err := guard.Move(context.Background(), order, state)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s\n", state, passage)
	}
	// Output:
	// shipped: early
	// paid: moved
	// paid: duplicate
	// shipped: moved
	// paid: stale
	// cancelled: excluded
}

package txmsgtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

// orders is the service under test.
type orders struct {
	messenger txmsg.Messenger[*txmsgtest.Tx]
}

var errNoStock = errors.New("no stock")

func (o orders) place(ctx context.Context, id string, amount int) error {
	return o.messenger.Transact(ctx, func(ctx context.Context, tx *txmsgtest.Tx, out txmsg.Publisher) error {
		if err := tx.Put("order/"+id, "placed"); err != nil {
			return err
		}
		event := txmsg.Message{Topic: "orders", Key: id, Type: "order.placed", Body: fmt.Appendf(nil, `{"amount":%d}`, amount)}
		if err := out.Publish(ctx, event); err != nil {
			return err
		}
		if amount > 100 {
			return errNoStock
		}
		return nil
	})
}

func Example_transact() {
	m := txmsgtest.NewMemory()
	service := orders{messenger: m}

	fmt.Println(service.place(context.Background(), "7", 50))
	fmt.Println(service.place(context.Background(), "8", 500))

	fmt.Println(m.Values())
	for _, msg := range m.Published() {
		fmt.Println(msg.Topic, msg.Key, msg.Type, string(msg.Body))
	}
	// Output:
	// <nil>
	// no stock
	// map[order/7:placed]
	// orders 7 order.placed {"amount":50}
}

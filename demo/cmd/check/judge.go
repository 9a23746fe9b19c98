package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/txmsg/txmsg-go/demo"
	"github.com/txmsg/txmsg-go/demo/order"
	"github.com/txmsg/txmsg-go/demo/payment"
	"github.com/txmsg/txmsg-go/txmsg"
)

// event is what a message says, without its identity.
type event struct {
	Type     string
	OrderID  string
	Sequence int64
}

func eventOf(msg txmsg.Message) event { return event{msg.Type, msg.Key, msg.Sequence} }

// maxProblems is how many problems of one kind are told one by one.
const maxProblems = 10

// judge compares the three sources.
func judge(t *told, tables demo.Tables, found []txmsg.Message) (problems []error) {
	problems = append(problems, judgeClients(t, tables)...)
	problems = append(problems, judgePayments(tables)...)
	problems = append(problems, judgeMessages(expected(tables), found)...)
	if tables.Dead > 0 {
		problems = append(problems, fmt.Errorf("%d dead letters", tables.Dead))
	}
	return problems
}

// judgeClients compares the orders with what the clients were told of them.
func judgeClients(t *told, tables demo.Tables) (problems []error) {
	saved := map[string]order.Order{}
	for _, o := range tables.Orders {
		saved[o.ID] = o
		if _, ok := t.orders[o.ID]; !ok {
			problems = append(problems, fmt.Errorf("order %s: no client was told of it", o.ID))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.orders)) {
		promised := t.orders[id]
		o, ok := saved[id]
		switch {
		case !ok:
			problems = append(problems, fmt.Errorf("order %s: a client was told of it, the database does not have it", id))
		case o.Amount != promised.amount:
			problems = append(problems, fmt.Errorf("order %s: amount %d, the client ordered %d", id, o.Amount, promised.amount))
		case promised.cancelled != (o.State == order.Cancelled):
			problems = append(problems, fmt.Errorf("order %s: %s, the client was told cancelled=%t", id, o.State, promised.cancelled))
		}
	}
	return shorten(problems)
}

// judgePayments checks that each order's payment explains its state, and each payment's amount its own.
func judgePayments(tables demo.Tables) (problems []error) {
	explains := map[order.State][]payment.State{
		order.Paid:      {payment.Succeeded},
		order.Failed:    {payment.Failed},
		order.Cancelled: {payment.Void, payment.Refunded, payment.Failed},
	}
	saved := map[string]bool{}
	for _, o := range tables.Orders {
		saved[o.ID] = true
		p, ok := tables.Payments[o.ID]
		if !ok || !slices.Contains(explains[o.State], p.State) {
			problems = append(problems, fmt.Errorf("order %s is %s, its payment %q", o.ID, o.State, p.State))
		}
		ending := o.Amount % 100
		if refused := ending == payment.EndingDeclined || ending == payment.EndingTimeout; ok && p.State != payment.Void && refused != (p.State == payment.Failed) {
			problems = append(problems, fmt.Errorf("payment of %s is %s for the amount %d", o.ID, p.State, o.Amount))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tables.Payments)) {
		if !saved[id] {
			problems = append(problems, fmt.Errorf("payment of %s: there is no such order", id))
		}
	}
	return shorten(problems)
}

// judgeMessages compares what the databases say was published with what the broker has.
func judgeMessages(want map[event]bool, found []txmsg.Message) (problems []error) {
	ids := map[event]string{}
	for _, msg := range found {
		e := eventOf(msg)
		if !want[e] {
			problems = append(problems, fmt.Errorf("invented: the broker has %+v, the databases do not explain it", e))
			continue
		}
		if first, ok := ids[e]; ok && first != msg.ID {
			problems = append(problems, fmt.Errorf("two identities: %+v is %s and %s", e, first, msg.ID))
		}
		ids[e] = msg.ID
	}
	for e := range want {
		if _, ok := ids[e]; !ok {
			problems = append(problems, fmt.Errorf("lost: the broker does not have %+v", e))
		}
	}
	return shorten(problems)
}

// expected are the messages that the rows of both services imply.
func expected(tables demo.Tables) map[event]bool {
	want := map[event]bool{}
	for _, o := range tables.Orders {
		want[event{order.TypeCreated, o.ID, 1}] = true
		if o.State == order.Cancelled {
			want[event{order.TypeCancelled, o.ID, 2}] = true
		}
	}
	for _, p := range tables.Payments {
		first := p.State
		if p.State == payment.Refunded {
			first = payment.Succeeded
			want[event{"payment." + string(payment.Refunded), p.OrderID, 2}] = true
		}
		want[event{"payment." + string(first), p.OrderID, 1}] = true
	}
	return want
}

func shorten(problems []error) []error {
	if len(problems) <= maxProblems {
		return problems
	}
	return append(problems[:maxProblems:maxProblems], fmt.Errorf("and %d more of this kind", len(problems)-maxProblems))
}

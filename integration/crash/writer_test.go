package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Keys are few, so that the writers meet at each.
const keys = 16

// event is a business row: what its message must say.
type event struct {
	ID      string
	Key     string
	Version int64 // of the key's aggregate: 1, 2, 3 … over what was committed
	Body    []byte
}

func (e event) message(topic string) txmsg.Message {
	return txmsg.Message{
		ID: e.ID, Topic: topic, Key: e.Key, Type: "aggregate.changed", Sequence: e.Version, Body: e.Body,
		Headers: map[string]string{"Version": fmt.Sprint(e.Version)},
	}
}

// write changes the aggregate of e's key, whose row it locks until the transaction's end, keeps e with the version that
// came out, and returns that.
type write[Tx any] func(ctx context.Context, tx Tx, e event) (version int64, err error)

var errRollback = errors.New("rolled back on purpose")

// writers write until ctx ends: a business row for every message, several keys, a third of the transactions rolled back.
// gone says when an ended transaction's messages are no longer in flight.
func writers[Tx any](ctx context.Context, p *probe, m txmsg.Messenger[Tx], write write[Tx], gone func(err error) bool) {
	var all sync.WaitGroup
	for range p.plan.Writers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				ids, err := transact(ctx, p, m, write, n)
				if gone(err) {
					p.arrived(ids...)
				}
				pause(ctx, 8*time.Millisecond+rand.N(16*time.Millisecond))
			}
		})
	}
	all.Wait()
}

// transact runs the writer's n-th transaction, with one message or two of different keys.
func transact[Tx any](ctx context.Context, p *probe, m txmsg.Messenger[Tx], write write[Tx], n int) (ids []string, err error) {
	first := rand.N(keys)
	chosen := []int{first, min(first+1, keys-1)}[:1+n%2] // in one direction, so that no two wait for each other
	if chosen[len(chosen)-1] == first {
		chosen = chosen[:1]
	}
	err = m.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		for _, key := range chosen {
			e := event{ID: txmsg.NewID(), Key: fmt.Sprintf("key-%d", key), Body: make([]byte, rand.N(300))}
			for i := range e.Body {
				e.Body[i] = byte(rand.Uint32())
			}
			var err error
			if e.Version, err = write(ctx, tx, e); err != nil {
				return err
			}
			if err := out.Publish(ctx, e.message(p.plan.Topic)); err != nil {
				return err
			}
			ids = append(ids, e.ID)
			p.departed(e.ID)
			p.at(storing)
		}
		if n%3 == 2 {
			return errRollback
		}
		return nil
	})
	if err == nil {
		p.at(returned)
	}
	return ids, err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

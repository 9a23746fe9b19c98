package consumer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestPrune(t *testing.T) {
	t.Run("keeps the inbox within the retention, in bounded steps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Retention, b.cfg.PruneBatch = 2*time.Hour, 10
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				return b.apply(tx)
			})
			for i := range 35 {
				b.publish(t, message(fmt.Sprintf("old-%d", i)))
			}
			settled(time.Hour)
			for i := range 5 {
				b.publish(t, message(fmt.Sprintf("new-%d", i)))
			}
			settled(59 * time.Minute)
			require.Equal(t, 40, b.store.Marked(group))
			settled(3 * time.Minute)
			require.Equal(t, 5, b.store.Marked(group))
			n.stop(t)
		})
	})

	t.Run("goes on after the database was away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.Retention = time.Hour
			n := b.start(t, func(_ context.Context, tx *storetest.Tx, _ txmsg.Message, _ txmsg.Publisher) error {
				return b.apply(tx)
			})
			b.publish(t, message("1"))
			settled(time.Second)
			b.store.SetFaults(storetest.Faults{Down: true})
			settled(2 * time.Hour)
			require.Equal(t, 1, b.logs.count("inbox not pruned"))
			b.store.SetFaults(storetest.Faults{})
			settled(2 * time.Minute)
			require.Zero(t, b.store.Marked(group))
			n.stop(t)
		})
	})

	t.Run("never asks for more than a batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.cfg.PruneBatch = 7
			s := &pruneCounter{Memory: &b.store, left: 20}
			c, err := consumer.New(&b.messenger, s, b.broker.Subscriber(group, topic), func(context.Context, *storetest.Tx, txmsg.Message, txmsg.Publisher) error { return nil }, b.cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.NoError(t, c.Run(ctx))
			require.EqualValues(t, 3, s.calls.Load())
			require.Zero(t, s.left)
		})
	})
}

// pruneCounter counts the calls of PruneInbox and their rows.
type pruneCounter struct {
	*storetest.Memory
	calls atomic.Int64
	left  int
}

func (p *pruneCounter) PruneInbox(_ context.Context, _ time.Duration, limit int) (int, error) {
	p.calls.Add(1)
	pruned := min(limit, p.left)
	p.left -= pruned
	return pruned, nil
}

package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func concurrentTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"owners that lease at once never hold a lane together", concurrentLeases[Tx]},
		{"of settlements of one batch at once, each row counts once", concurrentSettles[Tx]},
		{"settlements of several batches at once all count", concurrentBatches[Tx]},
		{"C20 writers, readers and owners at once: every row is settled once", concurrentAll[Tx]},
	}
}

func concurrentLeases[Tx any](t *testing.T, b *bench[Tx]) {
	const owners = 5
	leases := make([]localtable.Lease, owners)
	var group errgroup.Group
	for i := range owners {
		group.Go(func() (err error) {
			leases[i], err = b.Store.Lease(b.ctx, fmt.Sprintf("owner%d", i), ttl)
			return err
		})
	}
	require.NoError(t, group.Wait())
	var lists [][]localtable.Lane
	for _, lease := range leases {
		lists = append(lists, lease.Lanes)
	}
	epochs(t, lists...)
}

func concurrentSettles[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 50)...)
	rows := b.read(lanes, most)
	changed := make([]int, 4)
	var group errgroup.Group
	for i := range changed {
		group.Go(func() (err error) {
			changed[i], err = b.Store.Settle(b.ctx, settlement(lanes, delivered(rows...)...))
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 50, changed[0]+changed[1]+changed[2]+changed[3])
	require.Equal(t, 50, b.kept())
}

func concurrentBatches[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	b.write(plain("m", 200)...)
	rows := b.read(lanes, most)
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			changed, err := b.Store.Settle(b.ctx, settlement(lanes, delivered(rows[i*50:i*50+50]...)...))
			if err == nil && changed != 50 {
				err = fmt.Errorf("changed %d rows of 50", changed)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, localtable.Status{}, b.status())
}

func concurrentAll[Tx any](t *testing.T, b *bench[Tx]) {
	const writers, transactions, owners = 4, 25, 3
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for i := range transactions {
				if err := writeOne(ctx, b.Store, fmt.Sprintf("%d-%d", w, i), fmt.Sprint(i%7)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	settled := make(chan int, writers*transactions)
	for o := range owners {
		group.Go(func() error { return drain(ctx, b.Store, fmt.Sprintf("owner%d", o), settled) })
	}
	group.Go(func() error { // tells the owners to stop by ending their context
		for total := 0; total < writers*transactions; {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%d of %d rows settled: %w", total, writers*transactions, context.Cause(ctx))
			case n := <-settled:
				total += n
			}
		}
		return errDone
	})
	require.ErrorIs(t, group.Wait(), errDone)
	require.Equal(t, localtable.Status{}, b.status())
	require.Equal(t, writers*transactions, b.kept())
}

var errDone = fmt.Errorf("every row is settled")

func writeOne[Tx any](ctx context.Context, store localtable.Store[Tx], id, key string) error {
	tx, err := store.Begin(ctx, func() func() { return func() {} })
	if err != nil {
		return err
	}
	return tx.Commit(ctx, store.Insert([]localtable.Entry{{
		Destination: destination, Message: txmsg.Message{ID: id, Topic: "t", Key: key, Body: []byte(id)},
	}})...)
}

// drain does what a relay does, until ctx ends.
func drain[Tx any](ctx context.Context, store localtable.Store[Tx], who string, settled chan<- int) error {
	for ctx.Err() == nil {
		lease, err := store.Lease(ctx, who, ttl)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		if lease.Surplus > 0 {
			if err := store.Release(ctx, who, lease.Lanes[:lease.Surplus]...); err != nil {
				return ignoreEnd(ctx, err)
			}
			lease.Lanes = lease.Lanes[lease.Surplus:]
		}
		rows, err := store.Read(ctx, destination, lease.Lanes, 10)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		s := settlement(lease.Lanes, delivered(rows...)...)
		s.Owner = who
		changed, err := store.Settle(ctx, s)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		select {
		case settled <- changed:
		case <-ctx.Done():
		}
	}
	return nil
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

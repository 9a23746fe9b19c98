package txmsgtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/txmsg/txmsg-go/txmsg"
)

func poolCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{{
		name:  "C13 publishing takes no second connection",
		needs: func(h Hooks[Tx]) bool { return h.Pooled != nil },
		run:   testPool[Tx],
	}}
}

// testPool holds a transaction open on each connection before any of them publishes: if one needed another connection, all would
// wait for ever.
func testPool[Tx any](t *testing.T, w *world[Tx]) {
	const callers = 20
	limit := min(10*time.Second, 2*w.wait)
	connections := 2
	if w.harness.SingleWriter {
		connections = 1
	}
	m := w.Pooled(t, connections)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var opened atomic.Int64
	allOpen := make(chan struct{})
	var msgs []txmsg.Message
	errs := make(chan error, callers)
	for range callers {
		msg := w.message("small pool")
		msgs = append(msgs, msg)
		go func() {
			errs <- m.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
				if opened.Add(1) == int64(connections) {
					close(allOpen)
				}
				select {
				case <-allOpen:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if err := w.write(ctx, tx, out, msg); err != nil {
					return err
				}
				return w.Nested(ctx, tx, out, func(context.Context, Tx) error { return nil })
			})
		}()
	}
	for range callers {
		require.NoError(t, <-errs, "within %s", limit)
	}
	w.requireDelivered(t, msgs...)
}

func processCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{name: "two messengers on one database deliver everything", run: testTwoMessengers[Tx]},
		{name: "what was committed while nobody ran is delivered by the next Run", idle: true, run: testRestart[Tx]},
		{name: "after Run has ended, Transact commits or refuses", run: testAfterRun[Tx]},
	}
}

func testTwoMessengers[Tx any](t *testing.T, w *world[Tx]) {
	second, stop := w.start(t)
	var all []txmsg.Message
	round := func(messengers ...txmsg.Messenger[Tx]) {
		for i := range 20 {
			m := w.message(fmt.Sprint(i))
			m.Key = fmt.Sprintf("%s-%d", w.key, i%5)
			require.NoError(t, w.transact(t.Context(), messengers[i%len(messengers)], m))
			all = append(all, m)
		}
	}
	round(w.messenger, second)
	stop() // and its part of the work goes over to the first
	round(w.messenger)
	w.requireDelivered(t, all...)
	if w.harness.Abilities.Order {
		w.requireOrder(t, all...)
	}
}

func testRestart[Tx any](t *testing.T, w *world[Tx]) {
	first := w.Messenger(t)
	var all []txmsg.Message
	for range 10 {
		m := w.message("nobody runs")
		require.NoError(t, w.transact(t.Context(), first, m))
		all = append(all, m)
	}
	require.ErrorIs(t, first.Transact(t.Context(), func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		if err := w.write(ctx, tx, out, w.message("ghost")); err != nil {
			return err
		}
		return errCallback
	}), errCallback)
	w.messenger, _ = w.start(t)
	w.requireDelivered(t, all...)
	if w.harness.Abilities.Order {
		w.requireOrder(t, all...)
	}
}

func testAfterRun[Tx any](t *testing.T, w *world[Tx]) {
	second, stop := w.start(t)
	before := w.message("before")
	require.NoError(t, w.transact(t.Context(), second, before))
	stop()
	after := w.message("after")
	err := w.transact(t.Context(), second, after)
	if err == nil {
		w.requireDelivered(t, before, after)
		return
	}
	require.ErrorIs(t, err, txmsg.ErrClosed)
	w.requireDelivered(t, before)
}

// testLeaks opens, runs, uses and stops a messenger in a subtest, whose cleanups end with it.
func testLeaks[Tx any](t *testing.T, h Harness[Tx]) {
	before := goleak.IgnoreCurrent()
	t.Run("open, run, use, stop", func(t *testing.T) {
		w := newIdleWorld(t, h)
		m, stop := w.start(t)
		w.messenger = m
		msg := w.message("goodbye")
		w.commit(t, msg)
		w.in.await(t, w.wait, 1, msg.ID)
		stop()
	})
	goleak.VerifyNone(t, append([]goleak.Option{before}, h.Leaks...)...)
}

package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func notifyTests[Tx any](h Harness[Tx]) []test[Tx] {
	if h.Mute {
		return []test[Tx]{{"a database without notifications says so", notifyMute[Tx]}}
	}
	return []test[Tx]{
		{"who listens looks at once, and after each Notify", notifyHeard[Tx]},
		{"everybody hears it, and one who begins later does not miss the next", notifyAll[Tx]},
		{"that nobody listens is no error", notifyNobody[Tx]},
		{"it is about these tables and no others", func(t *testing.T, b *bench[Tx]) { notifyOthers(t, b, h) }},
		{"a listener ends with its context, one that has lost its connection with an error", notifyEnds[Tx]},
		{"it waits for no transaction", notifyOpen[Tx]},
	}
}

// listener is one who listens, and counts what it hears.
type listener struct {
	t     *testing.T
	heard chan struct{}
	stop  context.CancelFunc
	ended chan error
}

// listen returns when heard was called for the first time.
func (b *bench[Tx]) listen() *listener {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	l := &listener{t: b.t, heard: make(chan struct{}, most), stop: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- b.Store.Listen(ctx, func() { l.heard <- struct{}{} }) }()
	b.t.Cleanup(func() {
		cancel()
		<-l.ended
	})
	l.hears()
	return l
}

// hears waits for the next call of heard.
func (l *listener) hears() {
	l.t.Helper()
	select {
	case <-l.heard:
	case err := <-l.ended:
		l.ended <- err
		require.FailNow(l.t, "Listen ended", "%v", err)
	case <-time.After(ttl):
		require.FailNow(l.t, "nothing heard")
	}
}

// end waits for the end of Listen.
func (l *listener) end() error {
	l.t.Helper()
	select {
	case err := <-l.ended:
		l.ended <- err
		return err
	case <-time.After(ttl):
		require.FailNow(l.t, "Listen did not end")
		return nil
	}
}

func (b *bench[Tx]) notify() {
	b.t.Helper()
	require.NoError(b.t, b.Store.Notify(b.ctx))
}

func notifyHeard[Tx any](t *testing.T, b *bench[Tx]) {
	l := b.listen()
	for range 3 {
		b.notify()
		l.hears()
	}
	require.Empty(t, l.heard, "heard although nobody notified")
}

func notifyAll[Tx any](_ *testing.T, b *bench[Tx]) {
	first := b.listen()
	b.notify()
	second := b.listen()
	first.hears()
	b.notify()
	first.hears()
	second.hears()
}

func notifyNobody[Tx any](_ *testing.T, b *bench[Tx]) {
	b.notify()
	b.notify()
}

// notifyOthers uses that notifications come in the order in which they were sent.
func notifyOthers[Tx any](t *testing.T, b *bench[Tx], elsewhere Harness[Tx]) {
	l := b.listen()
	require.NoError(t, elsewhere.Store.Notify(b.ctx))
	b.notify()
	l.hears()
	require.Empty(t, l.heard)
}

func notifyEnds[Tx any](t *testing.T, b *bench[Tx]) {
	l := b.listen()
	l.stop()
	require.NoError(t, l.end())

	l = b.listen()
	b.Cut(t)
	err := l.end()
	require.Error(t, err)
	require.NotErrorIs(t, err, txmsg.ErrUnsupported)
	l = b.listen()
	b.notify()
	l.hears()
}

func notifyOpen[Tx any](_ *testing.T, b *bench[Tx]) {
	l := b.listen()
	b.begin()
	b.notify()
	l.hears()
}

func notifyMute[Tx any](t *testing.T, b *bench[Tx]) {
	require.ErrorIs(t, b.Store.Notify(b.ctx), txmsg.ErrUnsupported)
	require.ErrorIs(t, b.Store.Listen(b.ctx, func() { t.Error("heard") }), txmsg.ErrUnsupported)
}

package localtable

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/txmsg/txmsg-go/txmsg"
)

const (
	deafInterval = 5 * time.Minute // between two tries to listen where nothing arrives
	steady       = 5 * time.Second // a connection that lasted as long was a good one: the next try comes soon
)

// listener wakes the relay when other processes commit. While it cannot, polling finds what they wrote.
type listener struct {
	store interface {
		Listen(ctx context.Context, heard func()) error
	}
	wake  coalescer
	hears atomic.Bool
	log   *slog.Logger

	wait       backoff.ExponentialBackOff
	lost, deaf bool // and told so
}

func (r *relay[Tx]) newListener() *listener {
	wake := func() time.Duration {
		r.destinations.wakeUp()
		return 0
	}
	return &listener{store: r.store, wake: coalescer{act: wake}, log: r.log, wait: newBackoff()}
}

// run ends with ctx, or when the database cannot notify at all.
func (l *listener) run(ctx context.Context) {
	for {
		began := time.Now()
		err := l.store.Listen(ctx, l.heard)
		l.hears.Store(false)
		if ctx.Err() != nil || errors.Is(err, txmsg.ErrUnsupported) {
			return
		}
		if time.Since(began) > steady {
			l.wait.Reset()
		}
		if !sleep(ctx, l.failed(err)) {
			return
		}
	}
}

func (l *listener) heard() {
	if !l.hears.Swap(true) && (l.lost || l.deaf) {
		l.log.Info("commits of other processes are heard again")
		l.lost, l.deaf = false, false
	}
	l.wake.signal()
}

// failed returns how long to wait before the next try.
func (l *listener) failed(err error) time.Duration {
	if errors.Is(err, ErrDeaf) {
		if !l.deaf {
			l.log.Warn("commits of other processes are not heard, only polling finds them", "error", err)
		}
		l.deaf = true
		return jitter(deafInterval)
	}
	if !l.lost && !l.deaf {
		l.log.Warn("commits of other processes are not heard for now, polling finds them", "error", err)
	}
	l.lost = true
	return l.wait.NextBackOff()
}

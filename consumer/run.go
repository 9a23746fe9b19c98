package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// run is what the deliveries of one Run share.
type run[Tx any] struct {
	*Consumer[Tx]
	stopping  <-chan struct{} // Run is to end
	cancelled chan struct{}   // DrainTimeout has passed
	abandoned chan struct{}   // what still runs is left behind
	drained   chan struct{}   // no delivery is under way any more

	mu      sync.Mutex
	calls   int           // deliveries under way
	idle    chan struct{} // closed when the last of them ends; nil: nobody asks
	left    []string      // IDs of messages left behind
	waiting int           // deliveries that wait for something that is away
}

func newRun[Tx any](c *Consumer[Tx], stopping <-chan struct{}) *run[Tx] {
	return &run[Tx]{
		Consumer: c, stopping: stopping,
		cancelled: make(chan struct{}), abandoned: make(chan struct{}), drained: make(chan struct{}),
	}
}

// deliver is what the subscriber calls.
func (r *run[Tx]) deliver(ctx context.Context, d txmsg.Delivery) error {
	if !r.begin() {
		return errStopping
	}
	defer r.end()
	w := newWork(r, d)
	r.metrics.inFlight.Add(ctx, 1, w.labels)
	defer r.metrics.inFlight.Add(ctx, -1, w.labels)
	return w.process(ctx)
}

// begin refuses deliveries once the run is to end, so that wait has seen the last of them.
func (r *run[Tx]) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if closed(r.stopping) {
		return false
	}
	r.calls++
	return true
}

func (r *run[Tx]) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls--; r.calls == 0 && r.idle != nil {
		close(r.idle)
	}
}

// wait waits for the deliveries under way, after the run is to end.
func (r *run[Tx]) wait() {
	r.mu.Lock()
	if r.calls == 0 {
		r.mu.Unlock()
		return
	}
	r.idle = make(chan struct{})
	r.mu.Unlock()
	<-r.idle
}

// call runs f in a goroutine of its own, so that one that ignores the end of its context can be left behind. A panic becomes
// an error with its stack, after it has rolled back what f had begun.
func (r *run[Tx]) call(ctx context.Context, messageID string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() {
			if value := recover(); value != nil {
				err = newPanicError(value)
			}
			done <- err
		}()
		err = f(ctx)
	}()
	cancelled := r.cancelled
	for {
		select {
		case err := <-done:
			return err
		case <-cancelled:
			cancel(errDraining)
			cancelled = nil
		case <-r.abandoned:
			select {
			case err := <-done:
				return err
			default:
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.left = append(r.left, messageID)
			return errAbandoned
		}
	}
}

// drain watches over the end of the run: first the handlers under way have their time, then their contexts end, then they are
// left behind.
func (r *run[Tx]) drain() {
	select {
	case <-r.stopping:
	case <-r.drained:
		return
	}
	grace := min(r.cfg.DrainTimeout/10, time.Second)
	for _, step := range []struct {
		after time.Duration
		then  chan struct{}
	}{{r.cfg.DrainTimeout, r.cancelled}, {grace, r.abandoned}} {
		timer := time.NewTimer(step.after)
		select {
		case <-timer.C:
			close(step.then)
		case <-r.drained:
			timer.Stop()
			return
		}
	}
}

// pause reports whether there is time for another try after d.
func (r *run[Tx]) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.stopping:
	case <-ctx.Done():
	}
	return false
}

func (r *run[Tx]) leftBehind() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.left) == 0 {
		return nil
	}
	return &AbandonedError{MessageIDs: r.left}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

package localtable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// releaseTimeout bounds the hand-over at the end of Run; lanes that are not released are free when their lease ends.
const releaseTimeout = 5 * time.Second

// relay is what the loops of one Run share: the keeper holds lanes, each destination's reader sends what is due there, the
// sweeper and the pruner tidy, the observer watches.
type relay[Tx any] struct {
	store        Store[Tx]
	destinations destinations
	cfg          Config
	meter        *instruments
	log          *slog.Logger
	owner        string
	lanes        *lanes
	clock        clock
	sweep        chan struct{} // the sweeper looks at once
	seen         observation
	listener     *listener
}

func newRelay[Tx any](store Store[Tx], destinations destinations, cfg Config, meter *instruments) *relay[Tx] {
	host, _ := os.Hostname()
	r := &relay[Tx]{
		store: store, destinations: destinations, cfg: cfg, meter: meter, log: cfg.Logger,
		owner: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), txmsg.NewID()),
		lanes: newLanes(),
		sweep: make(chan struct{}, 1),
	}
	r.listener = r.newListener()
	return r
}

// run ends in this order: the readers send no more and wait for their batches to be settled, while the keeper goes on renewing
// their lanes; then the keeper; then the lanes are released, so that others may go on at once; then the brokers are closed.
func (r *relay[Tx]) run(ctx context.Context) error {
	defer r.destinations.close(func(d *destination, err error) {
		r.log.Warn("broker not closed", "destination", d.Destination, "error", err)
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	unregister, err := r.meter.observe(r.health)
	if err != nil {
		return fmt.Errorf("localtable: register metrics: %w", err)
	}
	defer unregister()
	var tidy sync.WaitGroup
	defer tidy.Wait()
	defer stop() // before the wait
	tidy.Go(func() { r.observer().run(ctx) })
	tidy.Go(func() { r.sweeper().run(ctx) })
	tidy.Go(func() { r.pruner().run(ctx) })
	tidy.Go(func() { r.listener.run(ctx) })
	return r.send(ctx)
}

// send runs readers and keeper until ctx ends and the readers' batches are settled, or until a broker lacks topics.
func (r *relay[Tx]) send(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer stopWork() // before the wait
	background.Go(func() { r.boundDrain(ctx, work, stopWork) })
	keep, stopKeeping := context.WithCancel(work)
	defer stopKeeping()
	ready, held := make(chan struct{}, 1), make(chan struct{})
	background.Go(func() {
		defer close(held)
		r.hold(keep, work, ready)
	})

	errs := make([]error, len(r.destinations))
	var sending sync.WaitGroup
	for i, d := range r.destinations {
		sending.Go(func() {
			if errs[i] = r.awaitTopics(ctx, d); errs[i] != nil {
				stop()
			}
			if ctx.Err() != nil {
				return
			}
			signal(ready)
			reader := &reader[Tx]{relay: r, destination: d, done: make(chan report, d.Concurrency), due: true}
			reader.run(ctx, work)
		})
	}
	sending.Wait()
	stopKeeping()
	<-held
	return errors.Join(errs...)
}

// hold keeps lanes from when a destination is ready until keep ends, and gives them up. A relay that reaches no broker leaves
// the lanes to others.
func (r *relay[Tx]) hold(keep, work context.Context, ready <-chan struct{}) {
	select {
	case <-ready:
	case <-keep.Done():
		return
	}
	r.keeper().run(keep, work)
	r.lanes.renew(Lease{}, time.Time{}) // before others may take them
	release, cancel := context.WithTimeout(context.WithoutCancel(keep), releaseTimeout)
	defer cancel()
	if err := r.store.Release(release, r.owner); err != nil {
		r.log.Warn("lanes not released, others take them when the lease ends", "owner", r.owner, "error", err)
	}
}

// boundDrain ends work when ctx has been over for the drain timeout.
func (r *relay[Tx]) boundDrain(ctx, work context.Context, stopWork func()) {
	select {
	case <-ctx.Done():
	case <-work.Done():
		return
	}
	if sleep(work, r.cfg.DrainTimeout) {
		r.log.Warn("drain timeout is over")
		stopWork()
	}
}

func (r *relay[Tx]) keeper() *keeper {
	taken := func() {
		r.destinations.wakeUp()
		signal(r.sweep)
	}
	return &keeper{store: r.store, owner: r.owner, ttl: r.cfg.LeaseTTL, lanes: r.lanes, taken: taken, expired: r.meter.countExpired, clock: &r.clock, trouble: newTrouble(r.log), log: r.log}
}

// awaitTopics returns an error if the destination's broker lacks topics that it should have. A broker that does not answer is
// waited for, and shown as an outage.
func (r *relay[Tx]) awaitTopics(ctx context.Context, d *destination) error {
	if len(d.expected) == 0 {
		return nil
	}
	asked := map[string]bool{}
	for _, topic := range d.expected {
		asked[topic] = true
	}
	for failures := 0; ; failures++ {
		missing, err := d.Broker.Missing(ctx, d.expected)
		if err == nil {
			d.breaker.report(pass{}, answers{answered: asked})
		} else if ctx.Err() == nil {
			d.breaker.report(pass{}, answers{silent: asked, err: err})
		}
		switch {
		case err == nil && len(missing) == 0:
			return nil
		case err == nil && r.cfg.AllowMissing:
			r.log.Warn("topics are missing", "destination", d.Destination, "topics", missing)
			return nil
		case err == nil:
			missing = slices.Sorted(slices.Values(missing))
			return fmt.Errorf("localtable: destination %s: topics are missing: %s; make them, or set Config.AllowMissing: %w",
				d.Destination, strings.Join(missing, ", "), txmsg.ErrNoRoute)
		}
		if !sleep(ctx, jitter(min(firstProbe<<min(failures, 10), lastProbe))) {
			return nil
		}
	}
}

package localtable

import (
	"context"
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

// relay is what the loops of one Run share: the keeper holds lanes, the reader sends what is due, the sweeper and the pruner
// tidy, the observer watches.
type relay[Tx any] struct {
	store   Store[Tx]
	broker  Broker
	cfg     Config
	meter   *meter
	log     *slog.Logger
	owner   string
	lanes   *lanes
	breaker *breaker
	wake    chan struct{} // the reader looks at once
	sweep   chan struct{} // the sweeper looks at once
	seen    observation
	trouble *trouble
}

func newRelay[Tx any](store Store[Tx], broker Broker, cfg Config, meter *meter) *relay[Tx] {
	host, _ := os.Hostname()
	return &relay[Tx]{
		store: store, broker: broker, cfg: cfg, meter: meter, log: cfg.Logger,
		owner:   fmt.Sprintf("%s/%d/%s", host, os.Getpid(), txmsg.NewID()),
		lanes:   newLanes(),
		breaker: &breaker{destination: cfg.Destination, batchSize: cfg.BatchSize, log: cfg.Logger},
		wake:    make(chan struct{}, 1),
		sweep:   make(chan struct{}, 1),
		trouble: newTrouble(cfg.Logger),
	}
}

func (r *relay[Tx]) wakeUp() { signal(r.wake) }

// run ends in this order: the reader sends no more and waits for its batches to be settled, while the keeper goes on renewing
// their lanes; then the keeper; then the lanes are released, so that others may go on at once; then the broker is closed.
func (r *relay[Tx]) run(ctx context.Context) error {
	defer func() {
		if err := r.broker.Close(); err != nil {
			r.log.Warn("broker not closed", "error", err)
		}
	}()
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
	if err := r.awaitTopics(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	tidy.Go(func() { r.sweeper().run(ctx) })
	tidy.Go(func() { r.pruner().run(ctx) })
	r.send(ctx)
	return nil
}

// send runs reader and keeper until ctx ends and the reader's batches are settled, and gives up the lanes.
func (r *relay[Tx]) send(ctx context.Context) {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer stopWork() // before the wait
	background.Go(func() { r.boundDrain(ctx, work, stopWork) })
	keep, stopKeeping := context.WithCancel(work)
	defer stopKeeping()
	kept := make(chan struct{})
	background.Go(func() {
		defer close(kept)
		r.keeper().run(keep, work)
	})

	reader := &reader[Tx]{relay: r, done: make(chan report, r.cfg.Concurrency), trouble: r.trouble, due: true}
	reader.run(ctx, work)
	stopKeeping()
	<-kept

	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
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
		r.log.Warn("drain timeout is over", "destination", r.cfg.Destination)
		stopWork()
	}
}

func (r *relay[Tx]) keeper() *keeper {
	taken := func() {
		signal(r.wake)
		signal(r.sweep)
	}
	return &keeper{store: r.store, owner: r.owner, ttl: r.cfg.LeaseTTL, lanes: r.lanes, taken: taken, trouble: newTrouble(r.log), log: r.log}
}

// awaitTopics returns an error if the broker lacks topics that the configuration names. A broker that does not answer is
// waited for.
func (r *relay[Tx]) awaitTopics(ctx context.Context) error {
	if len(r.cfg.Topics) == 0 {
		return nil
	}
	for failures := 0; ; failures++ {
		missing, err := r.broker.Missing(ctx, r.cfg.Topics)
		switch {
		case err == nil && len(missing) == 0:
			return nil
		case err == nil && r.cfg.AllowMissing:
			r.log.Warn("topics are missing", "destination", r.cfg.Destination, "topics", missing)
			return nil
		case err == nil:
			missing = slices.Sorted(slices.Values(missing))
			return fmt.Errorf("localtable: topics are missing: %s; make them, or set Config.AllowMissing: %w", strings.Join(missing, ", "), txmsg.ErrNoRoute)
		case failures == 0 && ctx.Err() == nil:
			r.log.Warn("broker does not answer", "destination", r.cfg.Destination, "error", err)
		}
		if !sleep(ctx, jitter(min(firstProbe<<min(failures, 10), lastProbe))) {
			return nil
		}
	}
}

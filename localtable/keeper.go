package localtable

import (
	"context"
	"log/slog"
	"time"
)

// Parts of Config.LeaseTTL.
const (
	renewals  = 3  // a lease is renewed so many times in its life
	driftPart = 10 // this part of it is not used, because two clocks do not run alike
)

// standby is how often a relay without lanes asks for some; it does not poll, so this is all it costs.
const standby = time.Second

// keeper holds the lanes: it renews their lease, gives surplus ones back when no batch of theirs is under way, and
// wakes the reader and the sweeper when it got new ones.
type keeper struct {
	store interface {
		Lease(ctx context.Context, owner string, ttl time.Duration) (Lease, error)
		Release(ctx context.Context, owner string, lanes ...Lane) error
	}
	owner   string
	ttl     time.Duration
	lanes   *lanes
	taken   func() // called when there are new lanes
	expired func(lanes int)
	clock   *clock
	trouble *trouble
	log     *slog.Logger
}

// run ends with ctx. The calls have a context of their own, so that none is cut off and takes effect after the release.
func (k *keeper) run(ctx, work context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(k.lease(work))
		case <-k.lanes.settled:
			k.release(work)
		}
	}
}

// lease renews and returns the time to the next renewal.
func (k *keeper) lease(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, k.ttl/2)
	defer cancel()
	before := time.Now()
	lease, err := k.store.Lease(ctx, k.owner, k.ttl)
	if err != nil {
		return min(k.trouble.failed("lease", err), k.ttl/renewals)
	}
	k.trouble.worked()
	k.clock.set(lease.Now)
	if lease.Expired > 0 {
		k.log.Warn("lanes expired, their owner did not renew them", "expired", lease.Expired)
		k.expired(lease.Expired)
	}
	taken := k.lanes.renew(lease, before.Add(k.ttl-k.ttl/driftPart))
	if len(taken) > 0 {
		k.log.Info("lanes taken", "owner", k.owner, "taken", len(taken), "held", len(lease.Lanes))
		k.taken()
	}
	k.release(ctx)
	if len(lease.Lanes) == 0 {
		return min(standby, k.ttl/renewals)
	}
	return k.ttl / renewals
}

// release gives the surplus back. If it fails, the next lease finds the lanes held and surplus again.
func (k *keeper) release(ctx context.Context) {
	lanes := k.lanes.leave()
	if len(lanes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.ttl/2)
	defer cancel()
	if err := k.store.Release(ctx, k.owner, lanes...); err != nil {
		k.trouble.failed("release lanes", err)
		return
	}
	k.log.Info("lanes released", "owner", k.owner, "released", len(lanes))
}

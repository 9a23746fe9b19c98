package localtable

import (
	"context"
	"time"
)

// sweepInterval is for what no settlement unparked: more rows than one unparks, and what a person decided.
const sweepInterval = 30 * time.Second

// sweeper makes parked rows ready that nothing holds back, when lanes are taken over and from time to time.
type sweeper struct {
	store interface {
		Sweep(ctx context.Context, owner string, lanes []Lane, limit int) (int, error)
	}
	owner   string
	lanes   *lanes
	limit   int
	sweep   <-chan struct{}
	found   func() // called when rows became ready
	trouble *trouble
}

func (r *relay[Tx]) sweeper() *sweeper {
	return &sweeper{store: r.store, owner: r.owner, lanes: r.lanes, limit: r.cfg.BatchSize, sweep: r.sweep, found: r.destinations.wakeUp, trouble: newTrouble(r.log)}
}

func (s *sweeper) run(ctx context.Context) {
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sweep:
		case <-timer.C:
		}
		timer.Reset(s.step(ctx))
	}
}

// step sweeps once and returns the time to the next: at once when there may be more.
func (s *sweeper) step(ctx context.Context) time.Duration {
	lanes := s.lanes.all()
	if len(lanes) == 0 {
		return sweepInterval
	}
	question, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	swept, err := s.store.Sweep(question, s.owner, lanes, s.limit)
	if err != nil {
		if ctx.Err() != nil {
			return sweepInterval
		}
		return s.trouble.failed("sweep", err)
	}
	s.trouble.worked()
	if swept > 0 {
		s.found()
	}
	if swept >= s.limit {
		return 0
	}
	return sweepInterval
}

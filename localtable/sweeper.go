package localtable

import (
	"context"
	"time"
)

// sweepInterval is the net for what nobody asked a sweep for.
const sweepInterval = 30 * time.Second

// sweeper makes parked rows ready that nothing holds back: when lanes are taken over, when a head was settled, since more may
// stand behind it than a settlement unparks, and from time to time. It looks at every parked key, so those who ask wait until it has
// rested for long enough.
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
	rested  time.Time // when it may be asked again
}

func (r *relay[Tx]) sweeper() *sweeper {
	return &sweeper{store: r.store, owner: r.owner, lanes: r.lanes, limit: r.cfg.BatchSize, sweep: r.sweep, found: r.destinations.wakeUp, trouble: newTrouble(r.log)}
}

func (s *sweeper) run(ctx context.Context) {
	next := time.Now().Add(sweepInterval)
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sweep:
			if s.rested.Before(next) {
				next = s.rested
			}
		case <-timer.C:
			next = time.Now().Add(s.step(ctx))
		}
		timer.Reset(time.Until(next))
	}
}

// step sweeps once and returns the time to the next: at once when there may be more.
func (s *sweeper) step(ctx context.Context) time.Duration {
	lanes := s.lanes.all()
	if len(lanes) == 0 {
		return sweepInterval
	}
	start := time.Now()
	defer func() { s.rested = rested(start) }()
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

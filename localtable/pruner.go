package localtable

import (
	"context"
	"time"
)

// Pruning goes in steps that hold no lock for long.
const (
	pruneInterval = time.Minute
	pruneStep     = 1000
	prunePause    = 50 * time.Millisecond // between full steps, for the database's sake
)

// pruner removes delivered rows that were kept long enough, those too that another configuration kept.
type pruner struct {
	store interface {
		PruneMessages(ctx context.Context, retention time.Duration, limit int) (int, error)
	}
	retention time.Duration
	meter     *instruments
	trouble   *trouble
}

func (r *relay[Tx]) pruner() *pruner {
	return &pruner{store: r.store, retention: *r.cfg.Retention, meter: r.meter, trouble: newTrouble(r.log)}
}

func (p *pruner) run(ctx context.Context) {
	for wait := jitter(pruneInterval / 2); sleep(ctx, wait); {
		wait = p.step(ctx)
	}
}

func (p *pruner) step(ctx context.Context) time.Duration {
	question, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	removed, err := p.store.PruneMessages(question, p.retention, pruneStep)
	if err != nil {
		if ctx.Err() != nil {
			return pruneInterval
		}
		return p.trouble.failed("prune", err)
	}
	p.trouble.worked()
	p.meter.countPruned(removed)
	if removed >= pruneStep {
		return prunePause
	}
	return jitter(pruneInterval)
}

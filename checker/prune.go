package checker

import (
	"context"
	"time"
)

// Run removes records and tombstones that are older than the retention, in bounded steps, until ctx ends; then it
// returns nil. A database that does not answer is asked again.
func (f *Fence[Tx]) Run(ctx context.Context) error {
	ticker := time.NewTicker(f.cfg.PruneInterval)
	defer ticker.Stop()
	for failing := false; ; {
		err := f.prune(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			f.cfg.Logger.Warn("halves not pruned", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// prune repeats while there is more than one batch.
func (f *Fence[Tx]) prune(ctx context.Context) error {
	for {
		pruned, err := f.store.PruneHalves(ctx, f.cfg.Retention, f.cfg.PruneBatch)
		if err != nil {
			return err
		}
		f.metrics.pruned.Add(ctx, int64(pruned))
		if pruned < f.cfg.PruneBatch {
			return nil
		}
	}
}

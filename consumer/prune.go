package consumer

import (
	"context"
	"time"
)

// prune removes old inbox rows in bounded steps until ctx ends.
func (c *Consumer[Tx]) prune(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.PruneInterval)
	defer ticker.Stop()
	for failing := false; ; {
		err := c.pruneOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			c.cfg.Logger.Warn("inbox not pruned", "consumer", c.cfg.Name, "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pruneOnce repeats while there is more than one batch.
func (c *Consumer[Tx]) pruneOnce(ctx context.Context) error {
	for {
		pruned, err := c.store.PruneInbox(ctx, c.cfg.Retention, c.cfg.PruneBatch)
		if err != nil {
			return err
		}
		c.metrics.pruned.Add(ctx, int64(pruned), c.metrics.name)
		if pruned < c.cfg.PruneBatch || ctx.Err() != nil {
			return nil
		}
	}
}

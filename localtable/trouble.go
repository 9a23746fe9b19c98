package localtable

import (
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// trouble is what one loop meets with the database: the first failure of a row is logged, and so is its end.
type trouble struct {
	log  *slog.Logger
	mu   sync.Mutex
	wait backoff.ExponentialBackOff
	err  error // the last one, nil when the database works
}

// newBackoff is the pauses after failures of the database.
func newBackoff() backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{
		InitialInterval: 100 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: 5 * time.Second,
	}
}

func newTrouble(log *slog.Logger) *trouble {
	return &trouble{log: log, wait: newBackoff()}
}

// failed returns how long to wait before the next try.
func (t *trouble) failed(act string, err error) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.log.Warn("database fails", "act", act, "error", err)
	}
	t.err = err
	return t.wait.NextBackOff()
}

func (t *trouble) worked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return
	}
	t.log.Info("database works again")
	t.err = nil
	t.wait.Reset()
}

func (t *trouble) last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

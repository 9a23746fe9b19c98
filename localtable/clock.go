package localtable

import (
	"sync/atomic"
	"time"
)

// clock tells the database's time by what the last lease told: this machine's own clock may be wrong, and rows carry the
// database's times.
type clock struct{ ahead atomic.Int64 } // of this machine's, in nanoseconds

func (c *clock) set(now time.Time) { c.ahead.Store(int64(time.Until(now))) }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

package localtable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

// elsewhen is a database whose clock differs from the process's.
type elsewhen struct {
	*storetest.Memory
	by time.Duration
}

func (e elsewhen) Lease(ctx context.Context, owner string, ttl time.Duration) (localtable.Lease, error) {
	lease, err := e.Memory.Lease(ctx, owner, ttl)
	lease.Now = lease.Now.Add(e.by)
	return lease, err
}

func (e elsewhen) Read(ctx context.Context, destination string, lanes []localtable.Lane, limit int) ([]localtable.Row, error) {
	rows, err := e.Memory.Read(ctx, destination, lanes, limit)
	for i := range rows {
		rows[i].Created = rows[i].Created.Add(e.by)
	}
	return rows, err
}

func TestClock(t *testing.T) {
	for name, by := range map[string]time.Duration{"slow": 10 * time.Minute, "fast": -10 * time.Minute, "right": 0} {
		t.Run("C27 what has no route waits as long as it is old, by the database's clock, where the process's is "+name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.broker.set(faults{missing: map[string]bool{"orders": true}})
				conn := &connection{broker: w.broker, gate: &gate{}}
				m, err := localtable.New(elsewhen{w.memory, by}, conn, localtable.Config{})
				require.NoError(t, err)
				w.run(m, conn.gate, conn)
				w.write(of("k", "A")...)
				pass(time.Minute)
				calls := len(w.broker.seenCalls())
				require.GreaterOrEqual(t, calls, 6, "tries in a minute whose waits double")
				require.LessOrEqual(t, calls, 8)
				w.broker.set(faults{})
				w.until(2*time.Minute, w.drained)
			})
		})
	}
}

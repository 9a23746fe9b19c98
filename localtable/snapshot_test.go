package localtable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

func TestOldSnapshot(t *testing.T) {
	const old, over = "a long transaction keeps dead rows in the tables", "the long transaction has ended"
	t.Run("C66 is warned of once each time", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			p := w.start(localtable.Config{})
			told := func(age time.Duration) (warnings, ends int) {
				w.memory.SetFaults(storetest.Faults{Snapshot: age})
				pass(time.Minute)
				require.Equal(t, age, p.Health().Status.OldestSnapshot)
				return w.log.with(old), w.log.with(over)
			}
			for _, step := range []struct {
				age            time.Duration
				warnings, ends int
			}{
				{time.Minute, 0, 0}, {61 * time.Second, 1, 0}, {time.Hour, 1, 0}, {0, 1, 1}, {time.Second, 1, 1}, {2 * time.Minute, 2, 1}, {0, 2, 2},
			} {
				warnings, ends := told(step.age)
				require.Equal(t, step.warnings, warnings, "warnings at %s", step.age)
				require.Equal(t, step.ends, ends, "ends at %s", step.age)
			}
		})
	})
}

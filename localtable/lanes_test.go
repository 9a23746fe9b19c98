package localtable

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A relay that takes itself for the only one tells no other of commits.
func TestLanesAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make([]Lane, Lanes)
		for i := range all {
			all[i] = Lane{Number: i, Epoch: 1}
		}
		held := newLanes()
		renew := func(lease Lease) { held.renew(lease, time.Now().Add(time.Second)) }
		require.False(t, held.complete())
		renew(Lease{Lanes: all})
		require.True(t, held.complete())
		renew(Lease{Lanes: all, Surplus: 1})
		require.True(t, held.complete(), "a lane that is to leave is held")
		require.Len(t, held.leave(), 1)
		require.False(t, held.complete())
		renew(Lease{Lanes: all})
		require.True(t, held.complete())
		renew(Lease{Lanes: all[1:]})
		require.False(t, held.complete())
		renew(Lease{Lanes: all})
		time.Sleep(time.Second)
		require.False(t, held.complete(), "the lease is over")
	})
}

func TestLanesThatCanBeUsedAgainAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lane := Lane{Number: 7, Epoch: 1}
		held := newLanes()
		renew := func(surplus int) []Lane {
			return held.renew(Lease{Lanes: []Lane{lane}, Surplus: surplus}, time.Now().Add(time.Second))
		}
		require.Equal(t, []Lane{lane}, renew(0))
		require.Empty(t, renew(0))
		held.take("a", []Lane{lane})
		require.Empty(t, renew(1))
		held.done("a", []Lane{lane})
		require.Equal(t, []Lane{lane}, renew(0), "it was to leave, and stays")
		time.Sleep(time.Second)
		require.Equal(t, []Lane{lane}, renew(0), "its lease was over")
	})
}

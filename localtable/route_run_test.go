package localtable_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestRoutesRun(t *testing.T) {
	t.Run("a broker that is down at the start, or does not answer, delays its own destination", func(t *testing.T) {
		for name, f := range map[string]faults{"down": {down: true}, "deaf": {deaf: time.Hour}} {
			t.Run(name, func(t *testing.T) {
				inSites(t, func(t *testing.T, s *sites) {
					s.west.set(f)
					p := s.start(localtable.Config{Topics: []string{"orders", "bills.late"}})
					s.write(append(of("k", "o"), bills("k", "b")...)...)
					s.until(5*time.Second, func() bool { return s.east.distinct() == 1 })
					pass(2 * time.Hour)
					require.Empty(t, s.west.seenCalls())
					require.Zero(t, p.Health().Destinations[0].OutageSince)
					require.NotZero(t, p.Health().Destinations[1].OutageSince)
					require.ErrorIs(t, p.Health().Destinations[1].BrokerError, txmsg.ErrOutage)
					s.west.set(faults{})
					s.until(time.Hour+time.Minute, s.drained)
					require.Zero(t, p.Health().Destinations[1].OutageSince)
				})
			})
		}
	})

	t.Run("while no broker answers, the lanes are left to others", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.west.set(faults{down: true})
			s.east.set(faults{down: true})
			p := s.start(localtable.Config{})
			pass(time.Minute)
			require.Zero(t, p.Health().Lanes)
			s.east.set(faults{})
			pass(20 * time.Second)
			require.Equal(t, 64, p.Health().Lanes)
		})
	})

	t.Run("C61 a missing topic of one destination ends Run with an error that names both", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.west.set(faults{missing: map[string]bool{"bills": true, "bills.late": true}})
			east, west := &connection{broker: s.east, gate: &gate{}}, &connection{broker: s.west, gate: &gate{}}
			m, err := localtable.NewRouted(s.memory, routes(east, west), localtable.Config{Topics: []string{"bills.late"}})
			require.NoError(t, err)
			err = m.Run(t.Context())
			require.ErrorIs(t, err, txmsg.ErrNoRoute)
			require.ErrorContains(t, err, "destination west: topics are missing: bills, bills.late;")
			require.True(t, east.isClosed())
			require.True(t, west.isClosed())
			require.Equal(t, strings.Repeat(" ", 63), strings.Join(s.memory.Owners(), " "))
		})
	})

	t.Run("it ends by its deadline although one broker does not answer, and records what the other accepted", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.west.set(faults{latency: time.Hour})
			s.east.set(faults{latency: 2 * time.Second})
			p := s.start(localtable.Config{DrainTimeout: 5 * time.Second})
			s.write(append(of("k", "o"), bills("k", "b")...)...)
			s.until(time.Minute, func() bool { return len(s.west.seenCalls()) == 1 && len(s.east.seenCalls()) == 1 })
			before := time.Now()
			p.end(t)
			require.Equal(t, 5*time.Second, time.Since(before))
			require.Equal(t, localtable.Status{Ready: 1}, s.status())
			require.Equal(t, []string{"o"}, s.east.ids())
			require.Equal(t, []int{64}, s.shares())
			require.Equal(t, "", s.memory.Owners()[0])
		})
	})

	t.Run("it ends at once while it waits for one broker", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			s.west.set(faults{deaf: time.Hour})
			p := s.start(localtable.Config{})
			pass(time.Minute)
			before := time.Now()
			p.end(t)
			require.Zero(t, time.Since(before))
		})
	})

	t.Run("a broker that two routes share is closed once", func(t *testing.T) {
		inSites(t, func(t *testing.T, s *sites) {
			conn := &connection{broker: s.east, gate: &gate{}}
			m, err := localtable.NewRouted(s.memory, routes(conn, conn), localtable.Config{})
			require.NoError(t, err)
			p := s.run(m, &gate{}, conn)
			s.write(append(of("k", "o"), bills("k", "b")...)...)
			s.until(time.Minute, s.drained)
			p.end(t)
			require.ElementsMatch(t, []string{"o", "b"}, s.east.ids())
		})
	})
}

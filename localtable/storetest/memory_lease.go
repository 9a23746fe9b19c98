package storetest

import (
	"context"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// Lease implements [localtable.Store].
func (m *Memory) Lease(ctx context.Context, owner string, ttl time.Duration) (localtable.Lease, error) {
	unlock, err := m.ask(ctx, &m.calls.Lease)
	if err != nil {
		return localtable.Lease{}, err
	}
	defer unlock()
	now := time.Now()
	m.live[owner] = now.Add(ttl)
	floor, ceil := m.share(now)
	lease := localtable.Lease{Now: now}
	held := 0
	for number := range m.lanes {
		switch lane := &m.lanes[number]; {
		case lane.owner == owner:
			lane.until = now.Add(ttl)
			held++
		case lane.owner != "" && !now.Before(lane.until):
			lane.owner = ""
			lease.Expired++
		}
	}
	for number := range m.lanes {
		lane := &m.lanes[number]
		if held < ceil && lane.owner == "" {
			*lane = memoryLane{owner: owner, epoch: lane.epoch + 1, until: now.Add(ttl)}
			held++
		}
	}
	lease.Surplus = max(held-ceil, min(held-floor, m.missing(now, owner, floor)), 0)
	for number, lane := range m.lanes {
		if lane.owner == owner {
			lease.Lanes = append(lease.Lanes, localtable.Lane{Number: number, Epoch: lane.epoch})
		}
	}
	return lease, nil
}

// share is how many lanes an owner should have at least and at most. It forgets owners that are no longer live.
func (m *Memory) share(now time.Time) (floor, ceil int) {
	for owner, until := range m.live {
		if !now.Before(until) {
			delete(m.live, owner)
		}
	}
	live := len(m.live)
	return len(m.lanes) / live, (len(m.lanes) + live - 1) / live
}

// missing is how many lanes the other live owners lack and cannot find free.
func (m *Memory) missing(now time.Time, owner string, floor int) int {
	held, free := map[string]int{}, 0
	for _, lane := range m.lanes {
		if lane.owner == "" || !now.Before(lane.until) {
			free++
		} else {
			held[lane.owner]++
		}
	}
	lack := -free
	for other := range m.live {
		if other != owner {
			lack += max(floor-held[other], 0)
		}
	}
	return lack
}

// Release implements [localtable.Store].
func (m *Memory) Release(ctx context.Context, owner string, lanes ...localtable.Lane) error {
	unlock, err := m.ask(ctx, new(int))
	if err != nil {
		return err
	}
	defer unlock()
	if len(lanes) == 0 {
		delete(m.live, owner)
		for number := range m.lanes {
			if m.lanes[number].owner == owner {
				m.lanes[number].owner = ""
			}
		}
	}
	for _, lane := range lanes {
		if m.holds(owner, lane.Number, lanes) {
			m.lanes[lane.Number].owner = ""
		}
	}
	return nil
}

// holds reports whether owner holds the lane in the epoch that lanes tell.
func (m *Memory) holds(owner string, number int, lanes []localtable.Lane) bool {
	for _, lane := range lanes {
		if lane.Number == number {
			return m.lanes[number].owner == owner && m.lanes[number].epoch == lane.Epoch
		}
	}
	return false
}

package main

import (
	"slices"
	"sync"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// latency measures the time from a commit to the first handler that gets the message.
type latency struct {
	mu    sync.Mutex
	begun map[event]time.Time
	ended map[event]time.Time
}

func newLatency() *latency {
	return &latency{begun: map[event]time.Time{}, ended: map[event]time.Time{}}
}

func (l *latency) committed(msg txmsg.Message) { l.note(l.begun, msg) }
func (l *latency) consumed(msg txmsg.Message)  { l.note(l.ended, msg) }

func (l *latency) note(times map[event]time.Time, msg txmsg.Message) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := times[eventOf(msg)]; !ok {
		times[eventOf(msg)] = now
	}
}

// quantiles returns the times below which a share of the messages stayed. A handler that was faster than the return of the
// commit counts as no time.
func (l *latency) quantiles(shares ...float64) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []time.Duration
	for e, ended := range l.ended {
		if begun, ok := l.begun[e]; ok {
			all = append(all, max(0, ended.Sub(begun)))
		}
	}
	slices.Sort(all)
	quantiles := make([]time.Duration, len(shares))
	if len(all) == 0 {
		return quantiles
	}
	for i, share := range shares {
		quantiles[i] = all[min(len(all)-1, int(share*float64(len(all))))]
	}
	return quantiles
}

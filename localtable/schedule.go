package localtable

import (
	"math/rand/v2"
	"time"
)

// bounds are the first delay, the factor from one to the next, and the longest.
func (s Schedule) bounds() (first, factor, most time.Duration) {
	if s == Patient {
		return time.Minute, 5, 24 * time.Hour
	}
	return time.Second, 2, 5 * time.Minute
}

// after is the time to the next attempt when so many have been spent.
func (s Schedule) after(spent int) time.Duration {
	delay, factor, most := s.bounds()
	for range spent {
		if delay >= most {
			break
		}
		delay *= factor
	}
	return jitter(min(delay, most))
}

// sparing is the time to the next try of a row that spends no attempts: it waits as long again as it is old.
func (s Schedule) sparing(age time.Duration) time.Duration {
	first, _, most := s.bounds()
	return jitter(min(max(age, first), most))
}

// jitter only adds: nothing is tried before its time.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

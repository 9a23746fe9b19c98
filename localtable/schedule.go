package localtable

import (
	"math/rand/v2"
	"time"
)

// after is the time to the next attempt when so many have been spent.
func (s Schedule) after(spent int) time.Duration {
	delay, factor, most := time.Second, time.Duration(2), 5*time.Minute
	if s == Patient {
		delay, factor, most = time.Minute, 5, 24*time.Hour
	}
	for range spent {
		if delay >= most {
			break
		}
		delay *= factor
	}
	return jitter(min(delay, most))
}

// jitter only adds: nothing is tried before its time.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

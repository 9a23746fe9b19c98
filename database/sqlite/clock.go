package sqlite

import "time"

// milliseconds rounds up: nothing comes before its time.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

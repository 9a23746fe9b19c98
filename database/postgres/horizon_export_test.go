package postgres

import (
	"math"

	"github.com/txmsg/txmsg-go/localtable"
)

// Hurry lets the next read of a destination take a sight, if there is reason to.
func Hurry(db *DB, destination string) {
	h := db.horizon(destination)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked = math.Inf(-1)
}

// HurryNet lets the next read of a destination begin at the very front of its lanes.
func HurryNet(db *DB, destination string) {
	h := db.horizon(destination)
	h.mu.Lock()
	defer h.mu.Unlock()
	for lane := range h.bounds {
		h.bounds[lane].checked = math.Inf(-1)
	}
}

// Bounds are what is known of a destination's lanes.
func Bounds(db *DB, destination string) (lanes []int16, lows, reopened []int64) {
	h := db.horizon(destination)
	h.mu.Lock()
	defer h.mu.Unlock()
	for lane, b := range h.bounds {
		if b.known {
			lanes, lows, reopened = append(lanes, int16(lane)), append(lows, b.low), append(reopened, b.reopened)
		}
	}
	return lanes, lows, reopened
}

// NextRead is what the next read begins with: the parameters of ReadSQL, and whether it takes a sight.
func NextRead(db *DB, destination string, lanes []localtable.Lane, limit int) (args []any, sight bool) {
	h := db.horizon(destination)
	g := h.begin(lanes)
	h.fail(g)
	return g.args(destination, len(lanes), limit), g.sight != nil
}

package postgres

import (
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// FindDeadSQL is the statement that finds a page of dead rows.
func FindDeadSQL() string {
	return findHeldSQL + bareSQL + ` WHERE h.seq > $1 AND ` + statesSQL([]localtable.State{localtable.StateDead}) + ` ORDER BY h.seq LIMIT 500`
}

// The statements whose cost the tests hold.
const (
	PlanSQL    = planSQL
	ArchiveSQL = archiveReadySQL
	ReadSQL    = readSQL
	ParkSQL    = parkReadySQL
	DeleteSQL  = deleteReadySQL
	SweepSQL   = sweepSQL
	SkipSQL    = skipHeldSQL
)

// SetPulse changes how often a silent listener asks its connection.
func SetPulse(db *DB, pulse time.Duration) { db.pulse = pulse }

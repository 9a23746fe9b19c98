package postgres

import "time"

// The statements whose cost the tests hold.
const (
	PlanSQL    = planSQL
	ArchiveSQL = archiveReadySQL
	ReadSQL    = readSQL
	ParkSQL    = parkReadySQL
	DeleteSQL  = deleteReadySQL
	SweepSQL   = sweepSQL
)

// SetPulse changes how often a silent listener asks its connection.
func SetPulse(db *DB, pulse time.Duration) { db.pulse = pulse }

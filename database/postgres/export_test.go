package postgres

// The statements whose cost the tests hold.
const (
	PlanSQL    = planSQL
	ArchiveSQL = archiveReadySQL
	ReadSQL    = readSQL
	ParkSQL    = parkReadySQL
	DeleteSQL  = deleteReadySQL
	SweepSQL   = sweepSQL
)

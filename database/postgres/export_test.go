package postgres

// The statements whose cost the tests hold.
const (
	PlanSQL   = planSQL
	ReadSQL   = readSQL
	ParkSQL   = parkSQL
	DeleteSQL = deleteSQL
	SweepSQL  = sweepSQL
	UnparkSQL = unparkSQL
)

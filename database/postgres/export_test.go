package postgres

// The statements whose cost the tests hold.
const (
	PlanSQL   = planSQL
	ReadSQL   = readSQL
	ParkSQL   = parkReadySQL
	DeleteSQL = deleteReadySQL
	SweepSQL  = sweepSQL
)

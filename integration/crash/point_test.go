package crash

// point is a step of a protocol, before or after which a process can die.
type point string

// The steps. Those of the local table and of RocketMQ are passed by the decorators of the seams.
const (
	begin    point = "begin"
	commit   point = "commit"   // of a transaction with its messages
	rollback point = "rollback" //
	lease    point = "lease"    // lanes are taken or renewed
	read     point = "read"     // due rows
	publish  point = "publish"  // one call to the broker
	settle   point = "settle"   // one batch
	sweep    point = "sweep"    // parked rows
	release  point = "release"  // all lanes, at the end of Run
	prune    point = "prune"    // delivered rows
	record   point = "record"   // of a half
	fence    point = "fence"    // a check
	storing  point = "storing"  // Publish has returned, and the half is on its way to the broker
	returned point = "returned" // Transact has returned nil, and the settlement is on its way
)

func before(p point) point { return "before " + p }
func after(p point) point  { return "after " + p }

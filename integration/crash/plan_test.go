package crash

import (
	"context"
	"io"

	"github.com/txmsg/txmsg-go/integration/subprocess"
)

// planVariable tells a test binary that it is a child, and what it is to do.
const planVariable = "TXMSG_CRASH_PLAN"

// plan is what a child process is told.
type plan struct {
	Backend  string // names a function of children
	Database string // DSN or file
	Broker   string
	Topic    string
	Group    string // of RocketMQ's producers
	Name     string // of this process, to find its database sessions by

	Writers int  // goroutines that write; 0: it sends nothing itself
	Refuse  bool // some messages once, as a broker does
	Point   point
	Pass    int  // of the point; 0: never
	Freeze  bool // stop at the point instead of dying
	Mute    bool // write only: Run is left to others
	Late    bool // call Run when the writers have been at work for a second
	EndRun  bool // end Run while the writers go on, when a second has passed
	Prune   bool // delivered rows, all the time
}

// children are what a child process can be; each runs until it is killed or ctx ends.
var children = map[string]func(context.Context, plan, *probe) error{
	"localtable/postgres/kafka": func(ctx context.Context, p plan, probe *probe) error { return runPostgres(ctx, p, probe, openKafka) },
	"localtable/postgres/nats":  func(ctx context.Context, p plan, probe *probe) error { return runPostgres(ctx, p, probe, openNATS) },
	"localtable/sqlite/nats":    runSQLite,
	"rocketmq/postgres":         runRocketMQ,
}

// beChild is the whole life of a child process.
func beChild(text string) int {
	return subprocess.Be(text, func(ctx context.Context, p plan, reports io.Writer) error {
		probe := newProbe(p, reports)
		probe.report("listening", "") // it can be told to end from now on
		return children[p.Backend](ctx, p, probe)
	})
}

package localtable

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// observeInterval is how old the table's numbers may be in metrics and Health.
const observeInterval = 15 * time.Second

// observeRetry is after a failure: nothing waits for the numbers, and all loops try at once while the database is away.
const observeRetry = 5 * time.Second

// observeAfter is when the table is first looked at: a relay that starts has more urgent questions to the database.
const observeAfter = time.Second

// snapshotOld is the age at which a transaction of others is worth a warning: it keeps dead rows in our tables.
const snapshotOld = time.Minute

// Health is what the relay of one process knows.
type Health struct {
	// Owner is this relay's name in the lanes' leases and in the log.
	Owner string
	// Lanes are how many it holds; none means that others relay, or that the database does not answer.
	Lanes int
	// Listens tells that commits of other processes are heard at once; else they wait for the poll.
	Listens bool
	// Destinations are in the order of the routes; without routes there is one.
	Destinations []DestinationHealth
	// DatabaseError is the last failure to read; nil when all is well.
	DatabaseError error
	// Status is the table's, as it was at Observed.
	Status   Status
	Observed time.Time
	// Unrouted are destinations that had rows to send at Observed, and that no route here has. Such rows wait in
	// the lanes that this relay holds: another program has other routes, or a route was taken away too early.
	Unrouted []string
}

// DestinationHealth is what the relay knows of the broker of one destination.
type DestinationHealth struct {
	Destination string
	// OutageSince is when the broker stopped answering; zero while it answers.
	OutageSince time.Time
	// Resting are topics for which the broker does not answer although it does for others.
	Resting []string
	// BrokerError is the last answer that was none; nil when all is well.
	BrokerError error
}

func (r *relay[Tx]) health() Health {
	health := Health{Owner: r.owner, Lanes: len(r.lanes.all()), Listens: r.listener.hears.Load()}
	for _, d := range r.destinations {
		of := DestinationHealth{Destination: d.Destination}
		of.OutageSince, of.Resting, of.BrokerError = d.breaker.state()
		health.Destinations = append(health.Destinations, of)
		health.DatabaseError = cmp.Or(health.DatabaseError, d.trouble.last())
	}
	health.Status, health.Observed = r.seen.get()
	health.Unrouted = r.destinations.without(health.Status.Destinations)
	return health
}

// observation is the last status of the table.
type observation struct {
	mu     sync.Mutex
	status Status
	at     time.Time
}

func (o *observation) set(status Status) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status, o.at = status, time.Now()
}

func (o *observation) get() (Status, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status, o.at
}

// observer reads the table's status for metrics and Health, in every process, whoever holds the lanes.
type observer struct {
	store interface {
		Status(ctx context.Context) (Status, error)
	}
	without func(names []string) (unrouted []string)
	seen    *observation
	told    map[string]bool // unrouted destinations, each once
	trouble *trouble
	log     *slog.Logger
	warned  bool // of a snapshot that is old
}

func (r *relay[Tx]) observer() *observer {
	return &observer{
		store: r.store, without: r.destinations.without, seen: &r.seen, told: map[string]bool{}, trouble: newTrouble(r.log), log: r.log,
	}
}

func (o *observer) run(ctx context.Context) {
	for wait := observeAfter; sleep(ctx, wait); {
		wait = o.step(ctx)
	}
}

func (o *observer) step(ctx context.Context) time.Duration {
	question, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	status, err := o.store.Status(question)
	if err != nil {
		if ctx.Err() == nil {
			o.trouble.failed("observe", err)
		}
		return observeRetry
	}
	o.trouble.worked()
	o.seen.set(status)
	for _, name := range o.without(status.Destinations) {
		if !o.told[name] {
			o.told[name] = true
			o.log.Warn("rows of a destination that no route here has", "destination", name)
		}
	}
	o.judgeSnapshot(status.OldestSnapshot)
	return observeInterval
}

// judgeSnapshot warns once of each time in which a snapshot is old.
func (o *observer) judgeSnapshot(age time.Duration) {
	switch old := age > snapshotOld; {
	case old && !o.warned:
		o.warned = true
		o.log.Warn("a long transaction keeps dead rows in the tables", "age", age.Round(time.Second))
	case !old && o.warned:
		o.warned = false
		o.log.Info("the long transaction has ended")
	}
}

package crash

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
)

// step is a point and the passes of which one, at random, is the last.
type step struct {
	point     point
	low, high int
	change    func(*plan)
}

func steps(low, high int, change func(*plan), points ...point) (all []step) {
	for _, p := range points {
		all = append(all, step{before(p), low, high, change}, step{after(p), low, high, change})
	}
	return all
}

// relaySteps are the steps of a relay. It sweeps when it takes lanes, and releases them when it ends; the clean-up is one that
// the child does itself.
func relaySteps() []step {
	all := steps(2, 12, nil, publish, settle)
	all = append(all, step{after(read), 2, 12, nil})
	all = append(all, steps(1, 3, func(p *plan) { p.Late = true }, lease)...)
	all = append(all, steps(1, 1, func(p *plan) { p.Late = true }, sweep)...)
	all = append(all, steps(1, 1, func(p *plan) { p.EndRun = true }, release)...)
	return append(all, steps(5, 30, func(p *plan) { p.Prune = true }, prune)...)
}

func writerSteps() []step {
	all := steps(40, 160, nil, begin, commit)
	return append(all, steps(15, 60, nil, rollback)...)
}

func TestLocalTablePostgresKafka(t *testing.T) {
	crashTable(t, "localtable/postgres/kafka", newPostgresBase, services.Kafka(t), topic.Kafka, append(writerSteps(), relaySteps()...))
}

// What concerns the writers alone is the same with every broker.
func TestLocalTablePostgresNATS(t *testing.T) {
	crashTable(t, "localtable/postgres/nats", newPostgresBase, services.NATS(t), topic.NATS, relaySteps())
}

// SQLite has one lane and one writer. Its leases are the same code as its settlements.
func TestLocalTableSQLiteNATS(t *testing.T) {
	all := append(steps(20, 80, nil, begin, commit), steps(2, 12, nil, publish, settle)...)
	all = append(all, steps(1, 3, func(p *plan) { p.Late = true }, lease)...)
	crashTable(t, "localtable/sqlite/nats", newSQLite, services.NATS(t), topic.NATS, all)
}

func newPostgresBase(t *testing.T) base {
	b, _ := newPostgres(t)
	return b
}

func crashTable(t *testing.T, backend string, open func(*testing.T) base, address string, at func(string) topic.Broker, all []step) {
	t.Parallel()
	for _, step := range all {
		t.Run(string(step.point), func(t *testing.T) {
			t.Parallel()
			w := newTableWorld(t, backend, open, address, at)
			r := row{backend: backend, point: step.point}
			for range rounds(t) {
				pass := step.low + rand.N(step.high-step.low+1)
				inFlight, duplicates := w.round(t, step, pass)
				require.Positive(t, inFlight, "nothing was in flight at pass %d: the round shows nothing", pass)
				r.inFlight, r.duplicates = append(r.inFlight, inFlight), duplicates
			}
			results.add(r)
		})
	}
}

// tableWorld is a database and a topic; every round adds to them.
type tableWorld struct {
	base
	topics topic.Broker
	plan   plan            // what all its processes are told
	handed map[string]bool // IDs that a process was about to give the broker
}

func newTableWorld(t *testing.T, backend string, open func(*testing.T) base, address string, at func(string) topic.Broker) *tableWorld {
	t.Helper()
	w := &tableWorld{base: open(t), topics: at(address), handed: map[string]bool{}}
	w.plan = plan{Backend: backend, Broker: address, Database: w.database, Topic: w.topics.Create(t)}
	return w
}

// start runs a process of this world.
func (w *tableWorld) start(t *testing.T, p plan) *child {
	t.Helper()
	p.Backend, p.Broker, p.Database, p.Topic = w.plan.Backend, w.plan.Broker, w.plan.Database, w.plan.Topic
	if p.Name == "" {
		p.Name = newName()
	}
	return start(t, p)
}

// awaitDrained waits until a relay has left nothing in the local table. Status counts in several steps, between which a
// row can move: one zero may have missed it.
func (w *tableWorld) awaitDrained(t *testing.T, relay *child) {
	t.Helper()
	for range 3 {
		await(t, "the local table to be empty", func() bool {
			relay.RequireAlive(t)
			return w.unsent(t) == 0
		})
	}
}

// round kills a process at a step, has another one deliver what is left, and judges. The copies counted are those of all rounds.
//
// That no ghost can come later is not a matter of waiting. Once the sessions of the dead process are gone, the business table
// is final. Once the local table is empty, no relay has anything left to send; the one that emptied it has ended in order, and
// with it its requests. What the dead process still had on the wire is among what it told us beforehand that it was about to
// send; all of that must have been committed, so whatever of it the broker stores after we have read is a copy and no ghost.
func (w *tableWorld) round(t *testing.T, s step, pass int) (inFlight, duplicates int) {
	t.Helper()
	victim := plan{Name: newName(), Writers: 8, Refuse: true, Point: s.point, Pass: pass}
	if s.change != nil {
		s.change(&victim)
	}
	dying := w.start(t, victim)
	inFlight = dying.awaitReached(t)
	dying.awaitKilled(t)
	w.awaitGone(t, victim.Name)
	committed := w.committed(t)

	living := w.start(t, plan{})
	w.awaitDrained(t, living)
	living.end(t)

	require.Zero(t, w.unsent(t), "rows of the local table")
	require.Len(t, w.committed(t), len(committed), "business rows after everybody has ended")
	w.requireHanded(t, committed, dying, living)
	return inFlight, judge(t, committed, w.topics.Read(t, w.plan.Topic), true)
}

// requireHanded requires that no process was about to give the broker what was not committed.
func (w *tableWorld) requireHanded(t *testing.T, committed []event, processes ...*child) {
	t.Helper()
	known := make(map[string]bool, len(committed))
	for _, e := range committed {
		known[e.ID] = true
	}
	for _, process := range processes {
		for _, line := range process.reported("sending") {
			for _, id := range strings.Fields(line) {
				w.handed[id] = true
			}
		}
	}
	for id := range w.handed {
		require.True(t, known[id], "ghost: a relay was about to send message %s, which was not committed", id)
	}
}

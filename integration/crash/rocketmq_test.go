package crash

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/rocketmq"
	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// halfSteps are the steps of the half-message protocol. A process dies after COMMIT and before it tells the broker, after
// Transact has returned, and while it answers a check about what an earlier one left behind.
func halfSteps() []step {
	all := steps(20, 80, nil, begin, record, commit)
	all = append(all, steps(10, 30, nil, rollback)...)
	all = append(all, step{storing, 20, 80, nil}, step{returned, 20, 60, nil})
	return append(all, steps(1, 1, nil, fence)...) // the process before is sure to have left one half
}

func TestRocketMQPostgres(t *testing.T) {
	t.Parallel()
	nameServer := services.RocketMQ(t)
	books := openBooks(t, nameServer)
	for _, step := range halfSteps() {
		t.Run(string(step.point), func(t *testing.T) {
			t.Parallel()
			w := newHalfWorld(t, nameServer, books)
			r := row{backend: w.plan.Backend, point: step.point}
			for range rounds(t) {
				pass := step.low + rand.N(step.high-step.low+1)
				inFlight, duplicates, asked := w.round(t, step, pass)
				require.Positive(t, inFlight, "nothing was in flight at pass %d: the round shows nothing", pass)
				r.inFlight, r.duplicates, r.asked = append(r.inFlight, inFlight), duplicates, r.asked+asked
			}
			if step.point == after(commit) {
				require.GreaterOrEqual(t, r.asked, len(r.inFlight), "checks that decided: a transaction that has committed was not settled, and nobody asked")
			}
			results.add(r)
		})
	}
}

// halfWorld is a database, a group and a topic; every round adds to them.
type halfWorld struct {
	base
	plan    plan
	books   *books
	db      *postgres.DB
	barrier *rocketmq.Messenger[*storetest.MemoryTx] // of a group and a database of its own
	halves  []string                                 // that were recorded
}

const barrierType = "barrier"

func newHalfWorld(t *testing.T, nameServer string, books *books) *halfWorld {
	t.Helper()
	b, pool := newPostgres(t)
	w := &halfWorld{base: b, books: books, plan: plan{
		Backend: "rocketmq/postgres", Database: b.database, Broker: nameServer,
		Topic: rocketmqtest.Topic(t, nameServer, 1), Group: newName(),
	}}
	w.db = newDB(t, pool)
	var err error
	w.barrier, err = rocketmq.New(storetest.NewMemory(), rocketmq.Config{
		NameServers: []string{nameServer}, Group: newName(), Topics: []string{w.plan.Topic},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.barrier.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

func newDB(t *testing.T, pool *pgxpool.Pool) *postgres.DB {
	t.Helper()
	db, err := postgres.New(pool, postgres.Config{})
	require.NoError(t, err)
	return db
}

// round kills a process at a step, has another one run that sends nothing itself, and judges. The copies counted are those of all
// rounds; asked are the dead process's halves that the other one has decided.
//
// That no ghost can come later is not a matter of waiting. Every half that the broker can have was told by the process that
// recorded it, before it was sent. Those that the broker has stored are waited for until its own books say that it is done
// with them: it notes that after it has made the message visible or dropped it. The others are fenced here: with the
// tombstone, no check can ever answer that they are committed, should they turn up after all. Then the topic is read up to a
// barrier that was sent after all that.
func (w *halfWorld) round(t *testing.T, s step, pass int) (inFlight, duplicates, asked int) {
	t.Helper()
	var own []string
	if s.point == before(fence) || s.point == after(fence) {
		// One leaves halves, the next is asked about them. That one writes nothing: the broker puts checks off while others settle.
		inFlight, own = w.kill(t, after(commit), 20+rand.N(40), writing)
		w.kill(t, s.point, pass, 0)
	} else {
		inFlight, own = w.kill(t, s.point, pass, writing)
	}
	committed := w.committed(t)

	heir := w.plan
	heir.Name = newName()
	living := start(t, heir)
	w.raise(t) // what the broker had before is in the books now
	for _, id := range w.books.awaitDone(t, w.halves) {
		w.requireFenced(t, id)
	}
	living.RequireAlive(t)
	delivered := w.read(t, w.raise(t))
	living.end(t)

	require.Len(t, w.committed(t), len(committed), "business rows after everybody has ended")
	return inFlight, judge(t, committed, delivered, false), decided(living, own)
}

const writing = 12 // writers of a process that is to leave something

// kill has a process write until it reaches a point, and returns its halves.
func (w *halfWorld) kill(t *testing.T, p point, pass, writers int) (inFlight int, halves []string) {
	t.Helper()
	victim := w.plan
	victim.Name, victim.Writers, victim.Point, victim.Pass = newName(), writers, p, pass
	dying := start(t, victim)
	inFlight = dying.awaitReached(t)
	dying.awaitKilled(t)
	w.awaitGone(t, victim.Name)
	halves = dying.reported("half")
	w.halves = append(w.halves, halves...)
	return inFlight, halves
}

// requireFenced has a half that the broker does not have decided for good. A committed record of it would be a lost message.
func (w *halfWorld) requireFenced(t *testing.T, halfID string) {
	t.Helper()
	outcome, err := w.db.Fence(context.Background(), halfID, time.Second)
	require.NoError(t, err)
	require.Equal(t, txmsg.RolledBack, outcome, "half %s, which the broker does not have", halfID)
}

// raise sends a barrier and returns its ID when the broker's books have it from beginning to end: then they have all that was
// stored before it began.
func (w *halfWorld) raise(t *testing.T) (id string) {
	t.Helper()
	id = txmsg.NewID()
	err := w.barrier.Transact(context.Background(), func(ctx context.Context, _ *storetest.MemoryTx, out txmsg.Publisher) error {
		return out.Publish(ctx, txmsg.Message{ID: id, Topic: w.plan.Topic, Type: barrierType})
	})
	require.NoError(t, err)
	await(t, "the broker's books to have the barrier", func() bool {
		half, ok := w.books.halfOf(id)
		if !ok {
			return false
		}
		_, done := w.books.look(half)
		return done
	})
	return id
}

// read returns what the topic holds before a barrier, without the barriers.
func (w *halfWorld) read(t *testing.T, barrier string) (all []txmsg.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for m := range rocketmqtest.Read(ctx, t, w.plan.Broker, w.plan.Topic, 1) {
		headers := m.GetProperties()
		body := m.Body
		if headers["txmsg-empty"] != "" {
			body = nil
		}
		message, malformed := txmsg.FromWire(m.Topic, body, headers, "")
		if message.ID == barrier {
			return all
		}
		if message.Type != barrierType {
			message.Headers = map[string]string{"Version": message.Headers["Version"]} // the others are the backend's
			all = append(all, txmsg.Delivery{Message: message, Malformed: malformed})
		}
	}
	require.Fail(t, "the topic does not hold the barrier")
	return nil
}

// decided counts those of halves that a process has decided in checks.
func decided(by *child, halves []string) (n int) {
	own := map[string]bool{}
	for _, id := range halves {
		own[id] = true
	}
	for _, line := range by.reported("fenced") {
		id, _, _ := strings.Cut(line, " ")
		if own[id] {
			delete(own, id)
			n++
		}
	}
	return n
}

package txmsgtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// world is what a case works with: a fresh bundle with one messenger running, a topic and its reader.
type world[Tx any] struct {
	Bundle[Tx]
	harness   Harness[Tx]
	wait      time.Duration
	messenger txmsg.Messenger[Tx]
	topic     string
	key       string
	in        *reader
}

func newWorld[Tx any](t *testing.T, h Harness[Tx]) *world[Tx] {
	t.Helper()
	w := newIdleWorld(t, h)
	w.messenger, _ = w.start(t)
	return w
}

// newIdleWorld is a world whose messenger nobody runs yet.
func newIdleWorld[Tx any](t *testing.T, h Harness[Tx]) *world[Tx] {
	t.Helper()
	w := &world[Tx]{Bundle: h.Open(t), harness: h, wait: h.Wait, key: "key-" + txmsg.NewID()}
	w.topic = w.Topic(t)
	w.in = newReader(t, w.Bundle, w.topic, nil)
	return w
}

// start opens one more messenger and runs it until stop or the end of the test; Run must then return nil in time.
func (w *world[Tx]) start(t *testing.T) (m txmsg.Messenger[Tx], stop func()) {
	t.Helper()
	m = w.Messenger(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err, "Run after its context ended")
		case <-time.After(w.wait):
			require.Fail(t, "Run did not return after its context ended", "within %s", w.wait)
		}
	})
	t.Cleanup(stop)
	return m, stop
}

// message is a message of the world's topic and key with an ID of its own.
func (w *world[Tx]) message(body string) txmsg.Message {
	return txmsg.Message{ID: txmsg.NewID(), Topic: w.topic, Key: w.key, Type: "case.happened", Body: []byte(body)}
}

// write publishes msgs in one call and writes a business row with each one's ID, in one transaction.
func (w *world[Tx]) write(ctx context.Context, tx Tx, out txmsg.Publisher, msgs ...txmsg.Message) error {
	for _, m := range msgs {
		if err := w.Write(ctx, tx, m.ID); err != nil {
			return err
		}
	}
	return out.Publish(ctx, msgs...)
}

// commit commits msgs and their rows.
func (w *world[Tx]) commit(t *testing.T, msgs ...txmsg.Message) {
	t.Helper()
	require.NoError(t, w.transact(t.Context(), w.messenger, msgs...))
}

func (w *world[Tx]) transact(ctx context.Context, m txmsg.Messenger[Tx], msgs ...txmsg.Message) error {
	return m.Transact(ctx, func(ctx context.Context, tx Tx, out txmsg.Publisher) error {
		return w.write(ctx, tx, out, msgs...)
	})
}

// settle returns when whatever could arrive on the world's topic of the transactions that have ended has arrived: it
// commits a sentinel of each key behind it and waits for these. It returns their IDs.
func (w *world[Tx]) settle(t *testing.T, keys ...string) (sentinels []string) {
	t.Helper()
	if w.Quiesce != nil {
		ctx, cancel := context.WithTimeout(t.Context(), 4*w.wait)
		defer cancel()
		require.NoError(t, w.Quiesce(ctx), "quiesce")
	}
	keys = append(slices.Clone(keys), w.key)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		m := w.message("sentinel")
		m.Key = key
		sentinels = append(sentinels, m.ID)
		w.commitSentinel(t, m)
	}
	w.in.await(t, w.wait, 1, sentinels...)
	return sentinels
}

// sentinelTries is how often a sentinel's transaction may fail: a fault leaves broken connections behind in the pool, and each
// is noticed when it is used.
const sentinelTries = 20

func (w *world[Tx]) commitSentinel(t *testing.T, m txmsg.Message) {
	t.Helper()
	var err error
	for range sentinelTries {
		err = w.messenger.Transact(t.Context(), func(ctx context.Context, _ Tx, out txmsg.Publisher) error {
			return out.Publish(ctx, m)
		})
		if err == nil || errors.Is(err, txmsg.ErrOutcomeUnknown) {
			break
		}
	}
	require.NoError(t, err, "commit a sentinel")
}

// requireDelivered waits until every one of want has arrived, and requires that nothing else has or will, that every copy is
// whole, and that a business row stands for those messages and no others.
func (w *world[Tx]) requireDelivered(t *testing.T, want ...txmsg.Message) {
	t.Helper()
	w.requireArrived(t, 1, want...)
	w.requireRows(t, want...)
}

// requireArrived is requireDelivered without the rows and with a least number of copies.
func (w *world[Tx]) requireArrived(t *testing.T, copies int, want ...txmsg.Message) {
	t.Helper()
	expected := map[string]txmsg.Message{}
	var ids, keys []string
	for _, m := range want {
		expected[m.ID] = m
		ids = append(ids, m.ID)
		keys = append(keys, m.Key)
	}
	w.in.await(t, w.wait, copies, ids...)
	sentinels := w.settle(t, keys...)
	all, _ := w.in.all()
	for _, d := range all {
		if slices.Contains(sentinels, d.Message.ID) || string(d.Message.Body) == "sentinel" {
			continue
		}
		m, ok := expected[d.Message.ID]
		require.True(t, ok, "a message arrived that must not exist: %s", describe(d.Message))
		requireWhole(t, m, d)
	}
}

// requireRows requires that the committed business rows are those of want.
func (w *world[Tx]) requireRows(t *testing.T, want ...txmsg.Message) {
	t.Helper()
	ids := make([]string, 0, len(want))
	for _, m := range want {
		ids = append(ids, m.ID)
	}
	require.ElementsMatch(t, ids, w.rows(t), "committed business rows")
}

func (w *world[Tx]) rows(t *testing.T) []string {
	t.Helper()
	rows, err := w.Rows(t.Context())
	require.NoError(t, err)
	return rows
}

// eventually asks again until problem returns "".
func eventually(t *testing.T, wait time.Duration, problem func() string) {
	t.Helper()
	deadline := time.After(wait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := problem(); last != ""; last = problem() {
		select {
		case <-tick.C:
		case <-deadline:
			require.Fail(t, "not so within "+wait.String(), last)
			t.FailNow()
		}
	}
}

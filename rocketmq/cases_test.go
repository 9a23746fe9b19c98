package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/rocketmq/rocketmqtest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestCases(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"C01 a check that comes while the transaction is open is unknown, and the commit delivers":   testOpenTransaction,
		"C02 the check commits when the settlement was lost, and always says the same":               testLostSettlement,
		"C03 checks are unknown while the database is away, and roll back when it is back":           testDatabaseAway,
		"C04 two services with one group: the other one's halves are unknown, with a warning":        testOneGroupTwoDatabases,
		"C09 a panic in a check stops neither that nor later checks":                                 testPanicInCheck,
		"a restarted producer is asked before it has sent anything":                                  testRestart,
		"a name server that is away at the start is survived, and a host name does":                  testNameServerAway,
		"C61 a missing topic is not created, ends Run, and is waited for with AllowMissing":          testMissingTopic,
		"C62 SendTimeout and PrepareTimeout bound a transaction on a broker that does not answer":    testTimeouts,
		"C10 a half whose reply is lost is tried again: delivered under one ID, or not at all":       testLostReply,
		"settlements that were written before a shutdown reach the broker":                           testShutdownFlushes,
		"a transaction with many messages is prepared side by side and settles each of its messages": testManyMessages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func testOpenTransaction(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	m := openMessenger(t, w, "here", d.DB)
	runMessenger(t, m)
	runMessenger(t, openMessenger(t, w, "elsewhere", openDatabase(t, d.dsn).DB))
	id := txmsg.NewID()
	require.NoError(t, m.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		if err := w.place(d, nil, id)(ctx, tx, out); err != nil {
			return err
		}
		// Both that has the transaction and that must ask the database: the broker asks them in turn.
		answers := w.awaitChecks(t, id, func(answers []answer) bool {
			asked := map[string]bool{}
			for _, a := range answers {
				asked[a.messenger] = true
			}
			return len(answers) >= 2 && len(asked) == 2
		})
		require.Equal(t, len(answers), said(answers, primitive.UnkonwnState))
		return nil
	}))
	in.await(t, id)
	require.Zero(t, said(w.checks(id), primitive.RollbackMessageState))
	require.Equal(t, []string{id}, in.got())
}

func testLostSettlement(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	m := openMessenger(t, w, "", d.DB)
	runMessenger(t, m)
	w.mute.Store(true)
	id, ghost := txmsg.NewID(), txmsg.NewID()
	require.NoError(t, m.Transact(t.Context(), w.place(d, nil, id)))
	require.ErrorIs(t, m.Transact(t.Context(), w.place(d, errCase, ghost)), errCase)
	in.await(t, id)
	answers := w.awaitChecks(t, id, func(a []answer) bool { return len(a) > 0 })
	for range 5 {
		require.Equal(t, commit, answers[0].listener.CheckLocalTransaction(answers[0].asked))
	}
	// The ghost's half may not have been stored when its transaction ended; then nothing asks about it.
	require.NoError(t, w.quiesce(t.Context()))
	require.NotContains(t, in.got(), ghost)
	require.Equal(t, len(w.checks(ghost)), said(w.checks(ghost), rollback))
}

func testDatabaseAway(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	proxy := services.NewProxy(t, d.dsn)
	m := openMessenger(t, w, "", openDatabase(t, proxy.Replace(d.dsn)).DB)
	runMessenger(t, m)
	w.mute.Store(true)
	id := txmsg.NewID()
	require.ErrorIs(t, m.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		if err := w.place(d, nil, id)(ctx, tx, out); err != nil {
			return err
		}
		w.awaitChecks(t, id, func(a []answer) bool { return len(a) > 0 }) // now it is stored
		proxy.Cut()
		return errCase
	}), errCase)
	before := len(w.checks(id))
	answers := w.awaitChecks(t, id, func(a []answer) bool { return len(a) >= before+2 })
	require.Equal(t, len(answers), said(answers, primitive.UnkonwnState), "while the database is away")
	proxy.Restore()
	w.awaitChecks(t, id, func(a []answer) bool { return said(a, rollback) > 0 })
	w.mute.Store(false)
	sentinel := txmsg.NewID()
	require.NoError(t, m.Transact(t.Context(), w.place(d, nil, sentinel)))
	in.await(t, sentinel)
	require.Equal(t, []string{sentinel}, in.got())
	require.Zero(t, said(w.checks(id), commit))
}

func testOneGroupTwoDatabases(t *testing.T) {
	w, x, y := newWorld(t), newDatabase(t), newDatabase(t)
	in := w.inbox(t)
	var log services.Log
	mx := openMessenger(t, w, "x", x.DB)
	my := openMessenger(t, w, "y", y.DB, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	runMessenger(t, mx)
	runMessenger(t, my)
	require.NoError(t, my.Transact(t.Context(), w.place(y, nil))) // both are there
	w.mute.Store(true)
	var ids []string
	for range 50 {
		ids = append(ids, txmsg.NewID())
		require.NoError(t, mx.Transact(t.Context(), w.place(x, nil, ids[len(ids)-1])))
	}
	in.await(t, ids...)
	asked := 0
	for _, id := range ids {
		for _, a := range w.checks(id) {
			if a.messenger == "y" {
				asked++
				require.Equal(t, primitive.UnkonwnState, a.state)
			}
		}
	}
	require.Positive(t, asked, "the broker never asked the other service: the case shows nothing")
	require.Equal(t, 1, strings.Count(log.String(), "reason=foreign"))
	require.Contains(t, log.String(), "group="+w.group)
}

// panicStore panics when it is asked for the first time.
type panicStore struct {
	database
	panics atomic.Int64
}

func (s *panicStore) Fence(ctx context.Context, halfID string, wait time.Duration) (txmsg.Outcome, error) {
	if s.panics.Add(1) == 1 {
		panic("the first look-up panics")
	}
	return s.database.Fence(ctx, halfID, wait)
}

func testPanicInCheck(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	var log services.Log
	m := openMessenger(t, w, "", &panicStore{database: d}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	runMessenger(t, m)
	w.mute.Store(true)
	ids := []string{txmsg.NewID(), txmsg.NewID()}
	require.NoError(t, m.Transact(t.Context(), w.place(d, nil, ids...)))
	in.await(t, ids...)
	require.Equal(t, 1, strings.Count(log.String(), "reason=panic"))
}

func testRestart(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	w.mute.Store(true) // the first process dies between commit and settlement
	first := openMessenger(t, w, "first", d.DB)
	stop := runMessenger(t, first)
	id, ghost := txmsg.NewID(), txmsg.NewID()
	require.NoError(t, first.Transact(t.Context(), w.place(d, nil, id)))
	require.ErrorIs(t, first.Transact(t.Context(), w.place(d, errCase, ghost)), errCase)
	stop()
	runMessenger(t, openMessenger(t, w, "second", d.DB))
	in.await(t, id)
	answers := w.awaitChecks(t, id, func(a []answer) bool { return said(a, commit) > 0 })
	require.Equal(t, "second", answers[len(answers)-1].messenger)
	require.Zero(t, said(w.checks(ghost), commit))
	require.NotContains(t, in.got(), ghost)
}

func testNameServerAway(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	proxy := services.NewProxy(t, w.nameServer)
	proxy.Cut()
	m := openMessenger(t, w, "", d.DB, func(c *Config) {
		c.NameServers = []string{strings.Replace(proxy.Addr(), "127.0.0.1", "localhost", 1)}
	})
	runMessenger(t, m)
	start := time.Now()
	require.ErrorIs(t, m.Transact(t.Context(), w.place(d, nil, txmsg.NewID())), txmsg.ErrOutage)
	require.Less(t, time.Since(start), 2*time.Second)
	proxy.Restore()
	id := txmsg.NewID()
	require.Eventually(t, func() bool { return m.Transact(t.Context(), w.place(d, nil, id)) == nil }, patience, 50*time.Millisecond)
	in.await(t, id)
}

func testMissingTopic(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	missing := "missing-" + txmsg.NewID()
	known := w.topics[0]
	w.topics = []string{missing, known}
	err := openMessenger(t, w, "", d.DB).Run(t.Context())
	var list *MissingTopicsError
	require.ErrorAs(t, err, &list)
	require.Equal(t, []string{missing}, list.Topics)

	waiting := openMessenger(t, w, "", d.DB, func(c *Config) { c.AllowMissing = true })
	runMessenger(t, waiting)
	id := txmsg.NewID()
	place := w.place(d, nil, id)
	require.ErrorIs(t, waiting.Transact(t.Context(), place), txmsg.ErrNoRoute)
	rocketmqtest.CreateTopic(t, w.nameServer, missing, 1)
	require.Eventually(t, func() bool { return waiting.Transact(t.Context(), place) == nil }, patience, 100*time.Millisecond)
	w.inbox(t).await(t, id)
}

// testTimeouts measures. The machine may be busy, so an attempt may take longer than it should, but never shorter.
func testTimeouts(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	var proxy *services.Proxy
	w.nameServer, proxy = detour(t, w.nameServer)
	for _, row := range []struct{ send, prepare, least, most time.Duration }{
		{send: time.Second, prepare: 10 * time.Second, least: time.Second, most: 2500 * time.Millisecond},
		{send: 4 * time.Second, prepare: 10 * time.Second, least: 4 * time.Second, most: 5500 * time.Millisecond},
		{send: 4 * time.Second, prepare: 4500 * time.Millisecond, least: 4 * time.Second, most: 6 * time.Second},
	} {
		m := openMessenger(t, w, "", d.DB, func(c *Config) {
			c.SendTimeout, c.PrepareTimeout, c.Tries = row.send, row.prepare, 1
			if row.prepare < 2*row.send {
				c.Tries = 9
			}
		})
		require.Eventually(t, func() bool { return m.Transact(t.Context(), w.place(d, nil, txmsg.NewID())) == nil }, patience, 100*time.Millisecond)
		proxy.SwallowReplies()
		start := time.Now()
		require.ErrorIs(t, m.Transact(t.Context(), w.place(d, nil, txmsg.NewID())), txmsg.ErrOutage)
		require.GreaterOrEqual(t, time.Since(start), row.least)
		require.Less(t, time.Since(start), row.most)
		proxy.Restore()
	}
}

func testLostReply(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	// Another instance answers checks: this one's connection is going to break, and it registers again 30 s later.
	runMessenger(t, openMessenger(t, w, "elsewhere", d.DB))
	var proxy *services.Proxy
	w.nameServer, proxy = detour(t, w.nameServer)
	m := openMessenger(t, w, "", d.DB, func(c *Config) { c.SendTimeout, c.PrepareTimeout, c.Tries = 2*time.Second, 20*time.Second, 5 })
	runMessenger(t, m)
	require.NoError(t, m.Transact(t.Context(), w.place(d, nil, txmsg.NewID())), "and now there is a connection")
	var ids [2]string
	for i, failure := range []error{nil, errCase} {
		ids[i] = txmsg.NewID()
		before := w.unsettled.Load()
		proxy.SwallowReplies()
		ended := make(chan error, 1)
		go func() {
			ended <- m.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
				if err := w.place(d, nil, ids[i])(ctx, tx, out); err != nil {
					return err
				}
				if failure != nil {
					sleep(ctx, 3*time.Second)
				}
				return failure
			})
		}()
		require.Eventually(t, func() bool { return w.unsettled.Load() > before }, patience, 10*time.Millisecond, "the first try gives up")
		proxy.Restore()
		require.ErrorIs(t, <-ended, failure)
	}
	in.await(t, ids[0])
	w.awaitChecks(t, ids[0], func(a []answer) bool { return said(a, rollback) > 0 }) // the orphan's
	w.awaitChecks(t, ids[1], func(a []answer) bool { return said(a, rollback) > 0 })
	require.NoError(t, w.quiesce(t.Context()))
	require.NotContains(t, in.got(), ids[1])
	require.Zero(t, said(w.checks(ids[1]), commit))
}

func testShutdownFlushes(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	var ids []string
	for range 5 {
		m := openMessenger(t, w, "", d.DB)
		stop := runMessenger(t, m)
		id := txmsg.NewID()
		require.NoError(t, m.Transact(t.Context(), w.place(d, nil, id)))
		stop()
		ids = append(ids, id)
	}
	in.await(t, ids...)
	for _, id := range ids {
		require.Empty(t, w.checks(id))
	}
}

func testManyMessages(t *testing.T) {
	w, d := newWorld(t), newDatabase(t)
	in := w.inbox(t)
	m := openMessenger(t, w, "", d.DB)
	runMessenger(t, m)
	var ids []string
	for range 300 {
		ids = append(ids, txmsg.NewID())
	}
	before := runtime.NumGoroutine()
	require.NoError(t, m.Transact(t.Context(), w.place(d, nil, ids...)))
	in.await(t, ids...)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < before+200 }, patience, 20*time.Millisecond, "goroutines stay behind")
}

// TestCreationOrder makes a plain producer, a subscriber and a messenger in one process. Clients that shared an object would
// have one listener for checks, that of the first. One order after the other: plain producers share theirs.
func TestCreationOrder(t *testing.T) {
	for i, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprintf("C05 the messenger is asked, whatever was made before it: order %d", i+1), func(t *testing.T) {
			w, d := newWorld(t), newDatabase(t)
			received := make(chan string, 100)
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			t.Cleanup(func() {
				cancel()
				group.Wait()
			})
			var m *Messenger[pgx.Tx]
			parts := []func(){
				func() {
					plain := newPlainProducer(t, w.nameServer)
					require.NoError(t, plain.send(ctx, plainMessage(txmsg.Message{ID: "plain", Topic: w.topics[0]})))
				},
				func() {
					s, err := NewSubscriber(SubscriberConfig{NameServers: []string{w.nameServer}, Group: "c-" + w.group, Topics: w.topics[:1]})
					require.NoError(t, err)
					group.Go(func() {
						_ = s.Run(ctx, func(_ context.Context, d txmsg.Delivery) error {
							received <- d.Message.ID
							return nil
						})
					})
				},
				func() {
					m = openMessenger(t, w, "", d.DB)
					runMessenger(t, m)
					require.NoError(t, m.Transact(ctx, w.place(d, nil)))
				},
			}
			for _, part := range order {
				parts[part]()
			}
			w.mute.Store(true)
			id := txmsg.NewID()
			require.NoError(t, m.Transact(ctx, w.place(d, nil, id)))
			timeout := time.After(patience)
			for got := ""; got != id; {
				select {
				case got = <-received:
				case <-timeout:
					require.Fail(t, "not delivered")
				}
			}
			require.Positive(t, said(w.checks(id), commit))
		})
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// A broker goes away while messages are written, for long enough to be noticed, and comes back.
func TestBrokerOutage(t *testing.T) {
	t.Parallel()
	server := services.Postgres(t)
	brokers := map[string]func(t *testing.T) (*services.Server, transport){
		"Kafka": func(t *testing.T) (*services.Server, transport) {
			s := services.StartKafka(t, nil)
			return s, kafkaAt(s.Address())
		},
		"NATS": func(t *testing.T) (*services.Server, transport) {
			s := services.StartNATS(t, nil)
			return s, natsAt(s.Address())
		},
	}
	harms := map[string]struct{ begin, end func(s *services.Server) }{
		"stopped": {(*services.Server).Stop, (*services.Server).Restart},
		"killed":  {(*services.Server).Kill, (*services.Server).Restart},
		"paused":  {(*services.Server).Pause, (*services.Server).Resume},
	}
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, transport := start(t)
			for harm, do := range harms {
				t.Run(harm+" while messages are written: no attempt is spent, and all arrive in order", func(t *testing.T) {
					s := newShop(t, server, transport)
					m := s.messenger(t, localtable.Config{})
					run(t, m)
					written, stop := s.writeAll(t, m)
					eventually(t, func() bool { return written() > 50 && len(s.read(t)) > 20 }, "the first messages to arrive")

					do.begin(broker)
					eventually(t, func() bool { return !answers(m) }, "the outage to be seen")
					before := written()
					eventually(t, func() bool { return written() > before+100 }, "more messages to be written")
					do.end(broker)
					eventually(t, func() bool { return answers(m) }, "the end of the outage to be seen")
					stop()

					s.awaitDrained(t)
					read := s.awaitDelivered(t)
					require.Len(t, copies(read), written())
					requireCounted(t, read)
					require.Zero(t, s.spent(t), "messages that cost an attempt")
				})
			}
		})
	}
}

// answers reports whether the broker does, as far as the relay knows. A call that is answered in part makes a topic rest.
func answers(m *messenger) bool {
	health := m.Health().Destinations[0]
	return health.OutageSince.IsZero() && len(health.Resting) == 0
}

// writeAll has four writers write, each ten keys of its own whose messages are numbered from 1, until stop.
func (s *shop) writeAll(t *testing.T, m *messenger) (written func() int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var total atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, 4)
	for writer := range 4 {
		all.Go(func() {
			for n := range math.MaxInt {
				if ctx.Err() != nil {
					return
				}
				msg := s.order(fmt.Sprintf("key-%d-%d", writer, n%10), strconv.Itoa(n/10+1))
				if err := transact(context.Background(), m, nil, msg); err != nil {
					errs <- err
					return
				}
				total.Add(1)
				pause(30 * time.Millisecond)
			}
		})
	}
	end := func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(end)
	return func() int { return int(total.Load()) }, func() {
		t.Helper()
		end()
		select {
		case err := <-errs:
			require.NoError(t, err, "a write")
		default:
		}
	}
}

// requireCounted requires that the first copies of each key count from 1 without a gap.
func requireCounted(t *testing.T, read []txmsg.Message) {
	t.Helper()
	keys := map[string]bool{}
	for _, m := range read {
		keys[m.Key] = true
	}
	for key := range keys {
		for i, body := range firstCopies(read, key) {
			require.Equal(t, strconv.Itoa(i+1), body, "order of key %s", key)
		}
	}
}

// The database goes away under load. Whatever Transact says must be so.
func TestDatabaseRestart(t *testing.T) {
	t.Parallel()
	server := services.StartPostgres(t, nil)
	s := newShop(t, server.Address(), onKafka(t))
	m := s.messenger(t, localtable.Config{LeaseTTL: 3 * time.Second})
	run(t, m)
	var mu sync.Mutex
	answers := map[string]error{} // of Transact, by the order's ID
	committed := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, err := range answers {
			if err == nil {
				n++
			}
		}
		return n
	}
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		writers.Wait()
	})
	for writer := range 8 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var result error
				if n%3 == 2 {
					result = errRollback
				}
				msg := s.order(fmt.Sprint("key-", writer), "body")
				err := transact(context.Background(), m, result, msg)
				mu.Lock()
				answers[msg.ID] = err
				mu.Unlock()
				pause(5 * time.Millisecond)
			}
		})
	}
	more := func() {
		before := committed()
		eventually(t, func() bool { return committed() > before+100 }, "a hundred commits")
	}
	more()
	server.Restart()
	more()
	server.Kill()
	server.Restart()
	more()
	cancel()
	writers.Wait()

	s.awaitDrained(t)
	read := copies(s.awaitDelivered(t))
	rows, err := orders(t.Context(), s.direct)
	require.NoError(t, err)
	require.Len(t, read, len(rows), "messages and rows")
	there := map[string]bool{}
	for _, id := range rows {
		there[id] = true
	}
	unknown, failed := 0, 0
	for id, err := range answers {
		switch {
		case err == nil:
			require.True(t, there[id], "Transact returned nil, and there is no row")
		case errors.Is(err, txmsg.ErrOutcomeUnknown):
			unknown++
		default:
			require.False(t, there[id], "Transact said %v, and there is a row", err)
			if !errors.Is(err, errRollback) {
				failed++
			}
		}
	}
	require.Positive(t, failed+unknown, "no transaction met the restart: the test shows nothing")
	t.Logf("%d transactions, %d rows, %d failed by the restarts, %d of unknown outcome", len(answers), len(rows), failed, unknown)
}

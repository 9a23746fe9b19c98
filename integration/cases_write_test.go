package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

var errRollback = errors.New("rolled back on purpose")

func TestWriteCases(t *testing.T) {
	t.Parallel()
	server, kafka := services.Postgres(t), onKafka(t)
	test := beside(t, func(t *testing.T) *shop { return newShop(t, server, kafka) })
	test("C15 two serializable transactions on one account send two messages", testSerializable)
	test("C18 a transaction that commits after a later one is sent too", testLateCommit)
	test("C18 of 200 random overlapping transactions, what committed is sent", testOverlapping)
	test("C14 a message of an open transaction is not sent, and not when it is rolled back", testOpenTransaction)
}

func testSerializable(t *testing.T, s *shop) {
	_, err := s.direct.Exec(t.Context(), "CREATE TABLE account (balance int NOT NULL); INSERT INTO account VALUES (0)")
	require.NoError(t, err)
	m, err := localtable.New(s.store(t, func(c *postgres.Config) { c.Isolation = pgx.Serializable }), s.broker.open(t), localtable.Config{})
	require.NoError(t, err)
	run(t, m)
	var met sync.WaitGroup // both have read before one of them writes
	met.Add(2)
	runs := make(chan int, 2)
	errs := make(chan error, 2)
	for i := range 2 {
		go func() {
			arrive := sync.OnceFunc(met.Done)
			defer arrive()
			n := 0
			err := m.Transact(context.Background(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
				n++
				var balance int
				if err := tx.QueryRow(ctx, "SELECT balance FROM account").Scan(&balance); err != nil {
					return err
				}
				arrive()
				met.Wait()
				if _, err := tx.Exec(ctx, "UPDATE account SET balance = $1", balance+10); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", fmt.Sprint("payment-", i)); err != nil {
					return err
				}
				return out.Publish(ctx, txmsg.Message{Topic: s.topic, Key: "account", Body: fmt.Appendf(nil, "payment-%d", i)})
			})
			runs <- n
			errs <- err
		}()
	}
	require.NoError(t, errors.Join(<-errs, <-errs))
	require.Greater(t, <-runs+<-runs, 2, "the transactions did not conflict: the case shows nothing")
	s.awaitDrained(t)
	read := s.read(t)
	require.ElementsMatch(t, []string{"payment-0", "payment-1"}, firstCopies(read, "account"))
	require.Len(t, copies(read), 2, "ids, one for each call")
	var balance int
	require.NoError(t, s.direct.QueryRow(t.Context(), "SELECT balance FROM account").Scan(&balance))
	require.Equal(t, 20, balance)
}

// open begins a transaction with msg, and returns when it has been published and how to end it.
func (s *shop) open(m txmsg.Messenger[pgx.Tx], msg txmsg.Message) (end func(result error) error) {
	published, result, ended := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- m.Transact(context.Background(), func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
			// A row of the message is in the table before later ones are, and it is not committed.
			if err := m.(*messenger).Enqueue(ctx, tx, msg); err != nil {
				return err
			}
			if err := insertOrder(ctx, tx, msg.ID); err != nil {
				return err
			}
			close(published)
			return <-result
		})
	}()
	<-published
	return func(r error) error {
		result <- r
		return <-ended
	}
}

func testLateCommit(t *testing.T, s *shop) {
	m := s.messenger(t, localtable.Config{PollInterval: 50 * time.Millisecond})
	run(t, m)
	early, late := s.order("a", "early"), s.order("b", "late")
	end := s.open(m, early)
	s.commit(t, m, late)
	s.awaitDelivered(t)
	require.Zero(t, copies(s.read(t))[early.ID])
	require.NoError(t, end(nil))
	require.Len(t, s.awaitDelivered(t), 2)
}

func testOverlapping(t *testing.T, s *shop) {
	m := s.messenger(t, localtable.Config{PollInterval: 20 * time.Millisecond})
	run(t, m)
	var all sync.WaitGroup
	errs := make(chan error, 200)
	for n := range 200 {
		all.Go(func() {
			pause(rand.N(1500 * time.Millisecond))
			var result error
			if n%4 == 3 {
				result = errRollback
			}
			err := m.Transact(context.Background(), func(ctx context.Context, tx pgx.Tx, _ txmsg.Publisher) error {
				msg := s.order(fmt.Sprint("key-", n), fmt.Sprint(n))
				if err := m.Enqueue(ctx, tx, msg); err != nil {
					return err
				}
				pause(rand.N(100 * time.Millisecond))
				return errors.Join(insertOrder(ctx, tx, msg.ID), result)
			})
			if !errors.Is(err, result) {
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	require.NoError(t, <-errs)
	require.Len(t, copies(s.awaitDelivered(t)), 150)
	s.awaitDrained(t)
	require.Len(t, copies(s.read(t)), 150)
}

func testOpenTransaction(t *testing.T, s *shop) {
	m := s.messenger(t, localtable.Config{PollInterval: 20 * time.Millisecond})
	run(t, m)
	for _, result := range []error{nil, errRollback} {
		held := s.order("held", "held")
		end := s.open(m, held)
		for range 3 { // each is polled for, sent and settled while the other transaction is open
			s.commit(t, m, s.order("held", "sentinel"))
			s.awaitDelivered(t)
		}
		require.Zero(t, copies(s.read(t))[held.ID], "sent while its transaction was open")
		require.ErrorIs(t, end(result), result)
		s.commit(t, m, s.order("held", "sentinel"))
		read := s.awaitDelivered(t)
		require.Equal(t, result == nil, copies(read)[held.ID] > 0)
	}
}

func pause(d time.Duration) { <-time.After(d) }

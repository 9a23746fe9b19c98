package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// businessSQL makes a service's own tables.
const businessSQL = `
CREATE TABLE aggregate (key text PRIMARY KEY, version bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE event (id text PRIMARY KEY, key text NOT NULL, version bigint NOT NULL, body bytea NOT NULL);`

const fillSQL = `INSERT INTO aggregate SELECT 'key-' || n, 0 FROM generate_series(0, $1 - 1) n`

var errRollback = errors.New("rolled back on purpose")

// writers write until as many messages are committed as the size asks for, evenly over its time if they can.
type writers struct {
	size      size
	seed      uint64
	topic     string
	messenger *localtable.Messenger[pgx.Tx]

	began      time.Time
	rolledBack atomic.Int64
	failed     error // once they are done
}

func (w *writers) run(ctx context.Context) error {
	w.began = time.Now()
	errs := make([]error, w.size.writers)
	var all sync.WaitGroup
	for n := range w.size.writers {
		all.Go(func() { errs[n] = w.write(ctx, n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// write is one writer: each of its transactions changes one to three aggregates, and every third one is rolled back.
func (w *writers) write(ctx context.Context, n int) error {
	random := chance(w.seed, uint64(ofWriters+n))
	share := w.size.messages / w.size.writers
	if n < w.size.messages%w.size.writers {
		share++
	}
	for done := 0; done < share && ctx.Err() == nil; {
		count := min(1+random.IntN(3), share-done)
		var result error
		if random.IntN(3) == 0 {
			result = errRollback
		}
		err := w.transact(ctx, random, count, result)
		switch {
		case err == nil:
			done += count
		case errors.Is(err, errRollback):
			w.rolledBack.Add(int64(count))
		default:
			return err
		}
		due := w.began.Add(time.Duration(float64(w.size.lasting) * float64(done) / float64(share)))
		pause(ctx, time.Until(due))
	}
	return ctx.Err()
}

func (w *writers) transact(ctx context.Context, random *rand.Rand, count int, result error) error {
	chosen := make([]int, 0, count)
	for len(chosen) < count {
		// The first keys are chosen more often than the others; a key can have no more than one message in a call to the broker.
		if key := int(math.Pow(random.Float64(), 1.5) * float64(w.size.keys)); !slices.Contains(chosen, key) {
			chosen = append(chosen, key)
		}
	}
	slices.Sort(chosen) // in one direction, so that no two wait for each other
	events := make([]event, count)
	for i, key := range chosen {
		events[i] = event{ID: fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64()), Key: fmt.Sprintf("key-%d", key), Body: make([]byte, random.IntN(200))}
		for at := range events[i].Body {
			events[i].Body[at] = byte(random.Uint32())
		}
	}
	return w.messenger.Transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		for _, e := range events {
			if err := tx.QueryRow(ctx, "UPDATE aggregate SET version = version + 1 WHERE key = $1 RETURNING version", e.Key).Scan(&e.Version); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO event (id, key, version, body) VALUES ($1, $2, $3, $4)", e.ID, e.Key, e.Version, e.Body); err != nil {
				return err
			}
			msg := txmsg.Message{ID: e.ID, Topic: w.topic, Key: e.Key, Type: "aggregate.changed", Sequence: e.Version, Body: e.Body}
			if err := out.Publish(ctx, msg); err != nil {
				return err
			}
		}
		return result
	})
}

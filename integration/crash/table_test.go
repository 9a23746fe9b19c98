package crash

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// leaseTTL is how long the lanes of a dead process stay untouched.
const leaseTTL = 2 * time.Second

func openKafka(address string) (localtable.Broker, error) {
	return kafka.Open(context.Background(), kafka.Config{Brokers: []string{address}})
}

func openNATS(url string) (localtable.Broker, error) {
	return nats.Open(context.Background(), nats.Config{URLs: []string{url}})
}

func runPostgres(ctx context.Context, p plan, probe *probe, open func(address string) (localtable.Broker, error)) error {
	broker, err := open(p.Broker)
	if err != nil {
		return err
	}
	db, done, err := connect(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	return runTable(ctx, p, probe, db, broker, writePostgres)
}

// connect opens the database under the process's name.
func connect(ctx context.Context, p plan) (*postgres.DB, func(), error) {
	cfg, err := pgxpool.ParseConfig(p.Database)
	if err != nil {
		return nil, nil, err
	}
	cfg.MaxConns = int32(p.Writers + 6)
	cfg.ConnConfig.RuntimeParams["application_name"] = p.Name
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	db, err := postgres.New(pool, postgres.Config{})
	return db, pool.Close, err
}

func writePostgres(ctx context.Context, tx pgx.Tx, e event) (version int64, err error) {
	if err := tx.QueryRow(ctx, "UPDATE aggregate SET version = version + 1 WHERE key = $1 RETURNING version", e.Key).Scan(&version); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO event (id, key, version, body) VALUES ($1, $2, $3, $4)", e.ID, e.Key, version, e.Body)
	return version, err
}

func runSQLite(ctx context.Context, p plan, probe *probe) error {
	broker, err := openNATS(p.Broker)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(context.WithoutCancel(ctx), p.Database, sqlite.Config{BusyTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	return runTable(ctx, p, probe, db, broker, writeSQLite)
}

func writeSQLite(ctx context.Context, tx *sql.Tx, e event) (version int64, err error) {
	if err := tx.QueryRowContext(ctx, "UPDATE aggregate SET version = version + 1 WHERE key = ? RETURNING version", e.Key).Scan(&version); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO event (id, key, version, body) VALUES (?, ?, ?, ?)", e.ID, e.Key, version, e.Body)
	return version, err
}

// runTable writes and relays until the process is killed or ctx ends.
func runTable[Tx any](ctx context.Context, p plan, probe *probe, store localtable.Store[Tx], b localtable.Broker, write write[Tx]) error {
	watched := tableStore[Tx]{store, probe}
	retention := time.Hour
	m, err := localtable.New(watched, newBroker(b, probe), localtable.Config{
		LeaseTTL: leaseTTL, PollInterval: 200 * time.Millisecond, BatchSize: 50, Retention: &retention,
	})
	if err != nil {
		return err
	}
	run, end := ctx, context.CancelFunc(func() {})
	if p.EndRun { // what is written from then on stays in flight
		run, end = context.WithTimeout(ctx, time.Second)
	}
	defer end()
	var beside sync.WaitGroup
	beside.Go(func() {
		// Only a rollback is known here; the relay says what was settled.
		writers(ctx, probe, m, write, func(err error) bool { return err != nil && !errors.Is(err, txmsg.ErrOutcomeUnknown) })
	})
	if p.Prune {
		beside.Go(func() {
			for ctx.Err() == nil {
				_, _ = watched.PruneMessages(ctx, 0, 20)
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	if p.Late {
		pause(ctx, time.Second)
	}
	if p.Mute {
		<-ctx.Done()
	} else {
		err = m.Run(run)
	}
	beside.Wait()
	return err
}

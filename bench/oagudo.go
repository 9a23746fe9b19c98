package main

import (
	"context"
	"database/sql"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that the library is given
	"github.com/oagudo/outbox"
)

// simpleOutbox is github.com/oagudo/outbox, its relay tuned: as shipped it sends 100 messages every ten seconds.
type simpleOutbox struct {
	db         *sql.DB
	out        *sink
	context    *outbox.DBContext
	writer     *outbox.Writer
	optimistic bool
}

// openOagudo: the optimistic one also publishes from the writer, after the commit.
func openOagudo(optimistic bool) func(*database, *sink) (subject, error) {
	return func(db *database, out *sink) (subject, error) {
		pool, err := sql.Open("pgx", db.dsn)
		if err != nil {
			return nil, err
		}
		pool.SetMaxOpenConns(24)
		pool.SetMaxIdleConns(24)
		o := &simpleOutbox{db: pool, out: out, context: outbox.NewDBContext(pool, outbox.SQLDialectPostgres), optimistic: optimistic}
		o.writer = outbox.NewWriter(o.context)
		if optimistic {
			o.writer = outbox.NewWriter(o.context, outbox.WithOptimisticPublisher(o))
		}
		return o, nil
	}
}

// setup makes the table as the library's documentation has it.
func (o *simpleOutbox) setup(ctx context.Context) error {
	for _, statement := range []string{
		`CREATE TABLE outbox (id UUID PRIMARY KEY, created_at TIMESTAMPTZ NOT NULL, scheduled_at TIMESTAMPTZ NOT NULL, metadata BYTEA,
payload BYTEA NOT NULL, times_attempted INTEGER NOT NULL)`,
		`CREATE INDEX idx_outbox_created_at ON outbox (created_at)`,
		`CREATE INDEX idx_outbox_scheduled_at ON outbox (scheduled_at)`,
	} {
		if _, err := o.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (o *simpleOutbox) write(ctx context.Context, id int64) error {
	return o.writer.Write(ctx, outbox.NewMessage(body(id)), func(ctx context.Context, tx outbox.TxQueryer) error {
		_, err := tx.ExecContext(ctx, insertOrderSQL, orderArgs(id)...)
		return err
	})
}

func (*simpleOutbox) pendingSQL() string {
	return `INSERT INTO outbox (id, created_at, scheduled_at, payload, times_attempted)
VALUES (gen_random_uuid(), clock_timestamp(), clock_timestamp(), convert_to(body(i), 'UTF8'), 0)`
}

// Publish implements the library's publisher.
func (o *simpleOutbox) Publish(ctx context.Context, m *outbox.Message) error {
	return o.out.publish(ctx, message{key: key(orderOf(m.Payload)), body: m.Payload})
}

// relay polls every 10 ms, or every second behind the optimistic publisher: else the two race and most is sent twice.
func (o *simpleOutbox) relay(ctx context.Context) error {
	tick := 10 * time.Millisecond
	if o.optimistic {
		tick = time.Second
	}
	reader := outbox.NewReader(o.context, o, outbox.WithInterval(tick), outbox.WithReadBatchSize(1000), outbox.WithDeleteBatchSize(1000))
	reader.Start()
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	return reader.Stop(stop)
}

func (o *simpleOutbox) close() { _ = o.db.Close() }

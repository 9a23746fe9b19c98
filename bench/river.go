package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// jobQueue is github.com/riverqueue/river with a job that publishes, tuned: 2,000 workers and a fetch every millisecond.
type jobQueue struct {
	db     *database
	out    *sink
	client *queue.Client[pgx.Tx] // of the writers
}

type publishArgs struct {
	Key  string          `json:"key"`
	Body json.RawMessage `json:"body"`
}

func (publishArgs) Kind() string { return "publish" }

type publishWorker struct {
	queue.WorkerDefaults[publishArgs]
	out *sink
}

func (w *publishWorker) Work(ctx context.Context, job *queue.Job[publishArgs]) error {
	return w.out.publish(ctx, message{key: job.Args.Key, body: job.Args.Body})
}

// The inserting client's cooldown bounds how often it notifies, so it is tuned, too.
func riverConfig() *queue.Config {
	return &queue.Config{Logger: slog.New(slog.DiscardHandler), FetchCooldown: time.Millisecond}
}

func openRiver(db *database, out *sink) (subject, error) {
	client, err := queue.NewClient(riverpgxv5.New(db.pool), riverConfig())
	return &jobQueue{db: db, out: out, client: client}, err
}

func (q *jobQueue) setup(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(q.db.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (q *jobQueue) write(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, q.db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertOrderSQL, orderArgs(id)...); err != nil {
			return err
		}
		_, err := q.client.InsertTx(ctx, tx, publishArgs{Key: key(id), Body: body(id)}, nil)
		return err
	})
}

func (*jobQueue) pendingSQL() string {
	return `INSERT INTO river_job (args, kind, max_attempts, state, queue, priority, scheduled_at)
VALUES (jsonb_build_object('key', ` + keySQL + `, 'body', body(i)::jsonb), 'publish', 25, 'available', 'default', 1, now())`
}

func (q *jobQueue) relay(ctx context.Context) error {
	workers := queue.NewWorkers()
	queue.AddWorker(workers, &publishWorker{out: q.out})
	cfg := riverConfig()
	cfg.Workers = workers
	cfg.Queues = map[string]queue.QueueConfig{queue.QueueDefault: {MaxWorkers: 2000}}
	client, err := queue.NewClient(riverpgxv5.New(q.db.pool), cfg)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return client.StopAndCancel(stop)
}

func (*jobQueue) close() {}

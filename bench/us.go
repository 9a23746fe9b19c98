package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// ourselves is localtable on PostgreSQL with its default settings.
type ourselves struct {
	db        *postgres.DB
	messenger *localtable.Messenger[pgx.Tx]
	broker    localtable.Broker
	topic     string
}

// openUs opens localtable; deleting keeps no delivered messages, as the hand-written relay keeps none.
func openUs(deleting bool) func(*database, *sink) (subject, error) {
	return func(db *database, out *sink) (subject, error) {
		ours, err := postgres.New(db.pool, postgres.Config{})
		if err != nil {
			return nil, err
		}
		u := &ourselves{db: ours, topic: "orders", broker: nowhere{out}}
		if out.address != "" {
			broker, err := kafka.Open(context.Background(), kafka.Config{Brokers: []string{out.address}})
			if err != nil {
				return nil, err
			}
			u.broker, u.topic = counting{broker, out}, out.topic
		}
		var cfg localtable.Config
		if deleting {
			cfg.Retention = new(time.Duration)
		}
		u.messenger, err = localtable.New(ours, u.broker, cfg)
		return u, err
	}
}

// idSQL makes an ID as the library does, a UUIDv7: it begins with the time.
const idSQL = `overlay(overlay(gen_random_uuid()::text PLACING '7' FROM 15) PLACING regexp_replace(
lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0'), '(.{8})', '\1-') FROM 1)`

// setup also asks the broker, so that its first connection is not measured; the other contenders ping theirs.
func (u *ourselves) setup(ctx context.Context) error {
	if err := u.db.Migrate(ctx); err != nil {
		return err
	}
	_, err := u.broker.Missing(ctx, []string{u.topic})
	return err
}

func (u *ourselves) write(ctx context.Context, id int64) error {
	return u.messenger.Transact(ctx, func(ctx context.Context, tx pgx.Tx, out txmsg.Publisher) error {
		if _, err := tx.Exec(ctx, insertOrderSQL, orderArgs(id)...); err != nil {
			return err
		}
		return out.Publish(ctx, txmsg.Message{Topic: u.topic, Key: key(id), Type: eventType, Body: body(id)})
	})
}

func (u *ourselves) pendingSQL() string {
	return `INSERT INTO txmsg_message (id, topic, key, type, body)
VALUES (` + idSQL + `, '` + u.topic + `', ` + keySQL + `, '` + eventType + `', convert_to(body(i), 'UTF8'))`
}

func (u *ourselves) relay(ctx context.Context) error { return u.messenger.Run(ctx) }

func (u *ourselves) close() { _ = u.broker.Close() } // again, after Run: it says nothing new

// counting notes what the broker acknowledges.
type counting struct {
	localtable.Broker
	out *sink
}

func (c counting) Publish(ctx context.Context, msgs []txmsg.Message) []error {
	results := c.Broker.Publish(ctx, msgs)
	for i, err := range results {
		if err == nil {
			c.out.acknowledged(msgs[i].Body)
		}
	}
	return results
}

// nowhere is a broker that stores nothing and says yes.
type nowhere struct{ out *sink }

func (n nowhere) Publish(_ context.Context, msgs []txmsg.Message) []error {
	for _, m := range msgs {
		n.out.acknowledged(m.Body)
	}
	return make([]error, len(msgs))
}

func (nowhere) Check(txmsg.Message) error                           { return nil }
func (nowhere) Missing(context.Context, []string) ([]string, error) { return nil, nil }
func (nowhere) Close() error                                        { return nil }

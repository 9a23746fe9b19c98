package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker"
	checkertest "github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/consumer"
	consumertest "github.com/txmsg/txmsg-go/consumer/storetest"
	"github.com/txmsg/txmsg-go/database/postgres"
	"github.com/txmsg/txmsg-go/localtable"
	tabletest "github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestLocalTableStore(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) tabletest.Harness[pgx.Tx] {
		b := setup(t)
		return b.table(b.as(t, postgres.Write, postgres.Relay), b.as(t, postgres.Operate))
	})
}

// table is the harness of a store and an operator's store on b's tables.
func (b bundle) table(store localtable.Store[pgx.Tx], operator localtable.OperatorStore) tabletest.Harness[pgx.Tx] {
	return tabletest.Harness[pgx.Tx]{
		Store: store, Operator: operator, Lanes: localtable.Lanes,
		Age: func(t testing.TB, id string, by time.Duration) {
			b.exec(t, `UPDATE txmsg_ready SET created_at = created_at - $2::interval WHERE id = $1`, id, by)
			b.exec(t, `UPDATE txmsg_held SET created_at = created_at - $2::interval, due_at = due_at - $2::interval WHERE id = $1`, id, by)
		},
		AgeDelivered: func(t testing.TB, by time.Duration) {
			b.exec(t, `UPDATE txmsg_delivered SET delivered_at = delivered_at - $1::interval`, by)
		},
		Expire: func(t testing.TB, owner string) {
			b.exec(t, `UPDATE txmsg_instance SET expires_at = clock_timestamp() WHERE owner = $1`, owner)
		},
		Errors: func(t testing.TB, id string) []string {
			return query[[]string](t, b, `SELECT coalesce(array_agg(e->>'error'), '{}') FROM txmsg_held, jsonb_array_elements(errors) e WHERE id = $1`, id)
		},
		Cut: b.cut,
	}
}

func TestCheckerStore(t *testing.T) {
	checkertest.Run(t, checkertest.Harness[pgx.Tx]{
		Open: func(t *testing.T) checker.Store[pgx.Tx] { return setup(t).as(t, postgres.Check) },
		Again: func(t *testing.T, s checker.Store[pgx.Tx]) checker.Store[pgx.Tx] {
			return open(t, s.(bundle).dsn, postgres.Config{})
		},
	})
}

func TestConsumerStore(t *testing.T) {
	consumertest.Run(t, func(t *testing.T) consumertest.Harness[pgx.Tx] {
		b := setup(t)
		return consumertest.Harness[pgx.Tx]{
			Store: b.as(t, postgres.Consume), Database: b,
			Letters: func(t testing.TB, name string) []consumer.DeadLetter { return letters(t, b, name) },
			Age: func(t testing.TB, name, id string, by time.Duration) {
				b.exec(t, `UPDATE txmsg_inbox SET seen_at = seen_at - $3::interval WHERE consumer = $1 AND message_id = $2`, name, id, by)
			},
		}
	})
}

func letters(t testing.TB, b bundle, name string) []consumer.DeadLetter {
	rows, err := b.pool.Query(t.Context(), `SELECT consumer, message_id, topic, key, type, sequence, headers, body,
		broker, source_topic, partition, "offset", attempts, errors FROM txmsg_dead_letter WHERE consumer = $1`, name)
	require.NoError(t, err)
	letters, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (letter consumer.DeadLetter, err error) {
		m, source := &letter.Message, &letter.Source
		err = row.Scan(&letter.Consumer, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Sequence, &m.Headers, &m.Body,
			&source.Broker, &source.Topic, &source.Partition, &source.Offset, &letter.Attempts, &letter.Errors)
		return letter, err
	})
	require.NoError(t, err)
	return letters
}

var _ txmsg.Database[pgx.Tx] = bundle{}

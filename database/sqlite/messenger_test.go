package sqlite_test

import (
	"context"
	"database/sql"
	"maps"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
	"github.com/txmsg/txmsg-go/txmsg/txmsgtest"
)

// TestMessenger runs the conformance suite of backends on a local table in SQLite with a broker in memory.
func TestMessenger(t *testing.T) {
	conflict := conflict(t)
	txmsgtest.Run(t, txmsgtest.Harness[*sql.Tx]{
		Abilities:    txmsg.Abilities{Order: true, Delay: true},
		SingleWriter: true,
		Open:         func(t *testing.T) txmsgtest.Bundle[*sql.Tx] { return bundle(t, conflict) },
	})
}

func bundle(t *testing.T, conflict error) txmsgtest.Bundle[*sql.Tx] {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), sqlite.Config{Pragmas: []string{"foreign_keys(ON)"}})
	require.NoError(t, db.Migrate(t.Context()))
	_, err := db.Pool().Exec(`CREATE TABLE orders (id TEXT PRIMARY KEY ON CONFLICT ROLLBACK);
		CREATE TABLE payment (order_id TEXT REFERENCES orders DEFERRABLE INITIALLY DEFERRED)`)
	require.NoError(t, err)
	broker := &broker{topics: map[string][]txmsg.Message{}, changed: make(chan struct{})}
	messenger := func(t *testing.T) txmsg.Messenger[*sql.Tx] {
		m, err := localtable.New(db, connection{broker}, localtable.Config{})
		require.NoError(t, err)
		return m
	}
	return txmsgtest.Bundle[*sql.Tx]{
		Messenger: messenger,
		Write: func(ctx context.Context, tx *sql.Tx, id string) error {
			_, err := tx.ExecContext(ctx, insertOrder, id)
			return err
		},
		Rows: func(ctx context.Context) ([]string, error) { return orders(ctx, db) },
		Nested: func(ctx context.Context, tx *sql.Tx, _ txmsg.Publisher, fn func(ctx context.Context, tx *sql.Tx) error) error {
			return db.Nested(ctx, tx, func(ctx context.Context) error { return fn(ctx, tx) })
		},
		Topic:   func(*testing.T) string { return "topic-" + txmsg.NewID() },
		Receive: broker.receive,
		Hooks: txmsgtest.Hooks[*sql.Tx]{
			Conflict:      conflict,
			FailStatement: statement(`INSERT INTO orders (id) VALUES ('twice'), ('twice')`),
			FailCommit:    statement(`INSERT INTO payment (order_id) VALUES ('nobody')`),
			Redeliver:     func(*testing.T) { broker.redeliver() },
			Pooled:        func(t *testing.T, _ int) txmsg.Messenger[*sql.Tx] { return messenger(t) }, // one writer, always
		},
	}
}

func orders(ctx context.Context, db *sqlite.DB) ([]string, error) {
	rows, err := db.Pool().QueryContext(ctx, `SELECT id FROM orders`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// conflict is the error of a BEGIN that waited too long.
func conflict(t *testing.T) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conflict.db")
	db, other := open(t, path, sqlite.Config{BusyTimeout: 1e6}), open(t, path, sqlite.Config{})
	begin(t, other)
	_, err := db.Begin(t.Context(), nil)
	require.Error(t, err)
	return err
}

// broker keeps what is published on the wire's form, in order.
type broker struct {
	mu      sync.Mutex
	topics  map[string][]txmsg.Message
	copies  int           // beyond the first
	changed chan struct{} // closed and replaced by every change
}

// connection is one messenger's connection to the broker.
type connection struct{ *broker }

func (b *broker) redeliver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copies = 1
}

func (b *broker) Publish(_ context.Context, msgs []txmsg.Message) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range msgs {
		for range 1 + b.copies {
			b.topics[m.Topic] = append(b.topics[m.Topic], m.Clone())
		}
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return make([]error, len(msgs))
}

func (b *broker) Check(m txmsg.Message) error                         { return txmsg.CheckSize(m, 1<<20) }
func (b *broker) Missing(context.Context, []string) ([]string, error) { return nil, nil }
func (connection) Close() error                                       { return nil }

func (b *broker) receive(ctx context.Context, _ *testing.T, topic string) <-chan txmsg.Delivery {
	out := make(chan txmsg.Delivery)
	go func() {
		defer close(out)
		for offset := 0; ; {
			b.mu.Lock()
			msgs, changed := b.topics[topic], b.changed
			b.mu.Unlock()
			for ; offset < len(msgs); offset++ {
				delivery := txmsg.Delivery{Source: txmsg.Source{Broker: "memory", Topic: topic, Offset: int64(offset)}}
				delivery.Message, delivery.Malformed = txmsg.FromWire(topic, msgs[offset].Body, maps.Collect(txmsg.ToWire(msgs[offset])), "")
				select {
				case out <- delivery:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

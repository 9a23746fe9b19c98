package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// replica reads the table's inserts from the database's log: no poll and no statement, so it is the limit for latency.
type replica struct {
	db  *database
	out *sink

	pending   []*logged // in the order of their commits
	current   *logged
	confirmed pglogrepl.LSN
}

// logged is a transaction whose messages are under way.
type logged struct {
	end  pglogrepl.LSN
	left atomic.Int64
}

const (
	confirmInterval = 200 * time.Millisecond
	payloadColumn   = 3 // of outbox
)

func openLog(db *database, out *sink) (subject, error) { return &replica{db: db, out: out}, nil }

func (r *replica) setup(ctx context.Context) error {
	return r.db.exec(ctx, createOutboxSQL, `CREATE PUBLICATION bench FOR TABLE outbox WITH (publish = 'insert')`,
		`SELECT pg_create_logical_replication_slot('`+r.db.name+`', 'pgoutput')`)
}

func (r *replica) write(ctx context.Context, id int64) error { return writeOutbox(ctx, r.db, id) }

func (*replica) pendingSQL() string { return fillOutboxSQL }

func (r *replica) relay(ctx context.Context) error {
	dsn, err := url.Parse(r.db.dsn)
	if err != nil {
		return err
	}
	query := dsn.Query()
	query.Set("replication", "database")
	dsn.RawQuery = query.Encode()
	conn, err := pgconn.Connect(ctx, dsn.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pglogrepl.StartReplication(ctx, conn, r.db.name, 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names 'bench'", "binary 'true'"},
	})
	if err != nil {
		return err
	}
	next := time.Now()
	for ctx.Err() == nil {
		if !time.Now().Before(next) {
			if err := r.confirm(ctx, conn); err != nil {
				return err
			}
			next = time.Now().Add(confirmInterval)
		}
		if err := r.receive(ctx, conn, next); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// confirm tells the server how far all messages are acknowledged.
func (r *replica) confirm(ctx context.Context, conn *pgconn.PgConn) error {
	for len(r.pending) > 0 && r.pending[0].left.Load() == 0 {
		r.confirmed = r.pending[0].end
		r.pending = r.pending[1:]
	}
	return pglogrepl.SendStandbyStatusUpdate(ctx, conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: r.confirmed})
}

func (r *replica) receive(ctx context.Context, conn *pgconn.PgConn, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	received, err := conn.ReceiveMessage(ctx)
	if err != nil {
		if pgconn.Timeout(err) {
			return nil
		}
		return err
	}
	switch m := received.(type) {
	case *pgproto3.ErrorResponse:
		return errors.New(m.Message)
	case *pgproto3.CopyData:
		if m.Data[0] != pglogrepl.XLogDataByteID {
			return nil
		}
		data, err := pglogrepl.ParseXLogData(m.Data[1:])
		if err != nil {
			return err
		}
		return r.decode(data.WALData)
	}
	return nil
}

func (r *replica) decode(data []byte) error {
	parsed, err := pglogrepl.Parse(data)
	if err != nil {
		return fmt.Errorf("parse log: %w", err)
	}
	switch m := parsed.(type) {
	case *pglogrepl.BeginMessage:
		r.current = &logged{}
	case *pglogrepl.InsertMessage:
		body := append([]byte(nil), m.Tuple.Columns[payloadColumn].Data...)
		transaction := r.current
		transaction.left.Add(1)
		r.out.publishAsync(context.Background(), message{key: key(orderOf(body)), body: body}, func(err error) {
			if err == nil {
				transaction.left.Add(-1)
			}
		})
	case *pglogrepl.CommitMessage:
		r.current.end = m.TransactionEndLSN
		r.pending = append(r.pending, r.current)
	}
	return nil
}

func (*replica) close() {}

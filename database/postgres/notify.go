package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The channel is named after the table's identity, so that the tables of two schemas have two. A notification gets a
// transaction id, so its transaction would wait for the disk; nothing is lost if a crash forgets it.
const (
	channelSQL = `'txmsg/' || ($1::text::regclass)::oid::text`
	notifySQL  = `SELECT set_config('synchronous_commit', 'off', true), pg_notify(` + channelSQL + `, $2)`
)

// senderRest is how long the connection of Notify stays open unused.
const senderRest = 5 * time.Second

// Notify implements [localtable.Store]. It has a connection of its own, made as the pool's are, which is opened when it is
// needed and closed when it has not been for five seconds.
func (db *DB) Notify(ctx context.Context) error {
	if err := db.notify(ctx, ""); err != nil {
		return fmt.Errorf("postgres: notify: %w", err)
	}
	return nil
}

// notify sends a payload, which is empty but in a listener's test of itself.
func (db *DB) notify(ctx context.Context, payload string) error {
	select {
	case db.sender.gate <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-db.sender.gate }()
	args := [][]byte{[]byte(db.sql("txmsg_message")), []byte(payload)}
	return db.sender.exec(ctx, db.connect, notifySQL, args)
}

// sender keeps a connection between two notifications.
type sender struct {
	gate  chan struct{} // holds a token while the connection is in use
	conn  *pgx.Conn
	timer *time.Timer // closes the connection when it rests
}

func newSender() *sender { return &sender{gate: make(chan struct{}, 1)} }

// exec tries a second time, with a fresh connection, if the kept one turns out to have been lost.
func (s *sender) exec(ctx context.Context, connect func(context.Context) (*pgx.Conn, error), sql string, args [][]byte) error {
	if s.timer != nil {
		s.timer.Stop()
	}
	for {
		kept := s.conn != nil
		if !kept {
			conn, err := connect(ctx)
			if err != nil {
				return err
			}
			s.conn = conn
		}
		_, err := s.conn.PgConn().ExecParams(ctx, sql, args, nil, nil, nil).Close()
		if !s.conn.IsClosed() {
			s.timer = time.AfterFunc(senderRest, s.rest)
			return err
		}
		s.conn = nil
		if !kept || ctx.Err() != nil {
			return err
		}
	}
}

// rest closes the connection unless it is in use.
func (s *sender) rest() {
	select {
	case s.gate <- struct{}{}:
	default:
		return
	}
	defer func() { <-s.gate }()
	if s.conn != nil {
		closeConn(s.conn)
		s.conn = nil
	}
}

// closeConn says goodbye to a server that may be gone.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is closed in any case
}

package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/txmsg/txmsg-go/localtable"
)

const (
	pulse         = 30 * time.Second
	pulseTimeout  = 5 * time.Second
	listenTimeout = 10 * time.Second // for a new connection
	proofTimeout  = 2 * time.Second  // for the notification that proves that others will arrive
)

// Listen implements [localtable.Store]. It has a connection of its own, outside the pool; a DB that goes through a pooler
// needs [Config.ListenURL] for it.
func (db *DB) Listen(ctx context.Context, heard func()) error {
	err := db.hear(ctx, heard)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("postgres: listen: %w", err)
}

func (db *DB) hear(ctx context.Context, heard func()) error {
	opening, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	e, err := db.openEar(opening)
	if err != nil {
		return err
	}
	defer closeConn(e.conn)
	if err := db.prove(opening, e); err != nil {
		return err
	}
	heard()
	for e.notified = false; ; e.notified = false {
		if err := e.wait(ctx, db.pulse); err != nil {
			return err
		}
		if e.notified {
			heard()
		}
	}
}

// ear is a connection that listens.
type ear struct {
	conn     *pgx.Conn
	channel  string
	token    string // the payload of the notification that proves that others arrive
	proven   bool
	notified bool
}

// openEar connects and listens. Where the session is not the one that the connection was promised, a pooler stands between;
// LISTEN through it would at best be in vain, and at worst fill the memory of clients that get what they did not ask for.
func (db *DB) openEar(ctx context.Context) (*ear, error) {
	e := &ear{token: rand.Text()}
	cfg, direct := db.listen, db.listen != nil
	if !direct {
		cfg = db.pool.Config().ConnConfig
	}
	cfg = cfg.Copy()
	cfg.OnNotification = e.take
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	conn, err := db.connectTo(ctx, cfg)
	if err != nil {
		return nil, err
	}
	e.conn = conn
	if err := e.listen(ctx, db.sql("txmsg_message"), direct); err != nil {
		closeConn(conn)
		return nil, err
	}
	return e, nil
}

// take is called while the connection reads.
func (e *ear) take(_ *pgconn.PgConn, n *pgconn.Notification) {
	switch n.Payload {
	case "":
		e.notified = true
	case e.token:
		e.proven = true
	}
}

func (e *ear) listen(ctx context.Context, table string, direct bool) error {
	conn := e.conn.PgConn()
	result := conn.ExecParams(ctx, `SELECT `+channelSQL+`, pg_backend_pid()`, [][]byte{[]byte(table)}, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	e.channel = pgx.Identifier{string(result.Rows[0][0])}.Sanitize()
	if session := string(result.Rows[0][1]); !direct && session != strconv.Itoa(int(conn.PID())) {
		return fmt.Errorf("a pooler is between, set Config.ListenURL: %w", localtable.ErrDeaf)
	}
	return e.exec(ctx, "LISTEN "+e.channel)
}

func (e *ear) exec(ctx context.Context, sql string) error {
	return e.conn.PgConn().Exec(ctx, sql).Close()
}

// prove sends a notification on the way that all take, and waits for it.
func (db *DB) prove(ctx context.Context, e *ear) error {
	if err := db.notify(ctx, e.token); err != nil {
		return fmt.Errorf("notify itself: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	for !e.proven {
		err := e.conn.PgConn().WaitForNotification(waiting)
		switch {
		case err == nil:
		case waiting.Err() == nil || e.conn.IsClosed():
			return err
		default:
			_ = e.exec(ctx, "UNLISTEN "+e.channel) // in a pooler's session; it ends with a session of its own
			return localtable.ErrDeaf
		}
	}
	return nil
}

// wait returns when something has arrived. The time without is bounded, since a connection may be lost and nobody told:
// to listen again does no harm, and shows what the session is for in pg_stat_activity.
func (e *ear) wait(ctx context.Context, pulse time.Duration) error {
	quiet, cancel := context.WithTimeout(ctx, pulse)
	defer cancel()
	err := e.conn.PgConn().WaitForNotification(quiet)
	if err == nil || quiet.Err() == nil || e.conn.IsClosed() {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, pulseTimeout)
	defer cancel()
	return e.exec(asking, "LISTEN "+e.channel)
}

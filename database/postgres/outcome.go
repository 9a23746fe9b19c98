package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmsg/txmsg-go/txmsg"
)

// transactionID names a transaction among all of one server's history.
type transactionID struct {
	xid      string
	timeline string // grows when a standby is promoted or a backup is restored: then ids may be used again
}

const (
	timelineSQL = `substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)`
	identifySQL = `SELECT pg_current_xact_id()::text, ` + timelineSQL

	identifyAndBoundSQL = identifySQL + ` WHERE set_config('idle_in_transaction_session_timeout', $1, true) IS NOT NULL`

	// Two things make the status of an id worthless although the timeline is the same, and the last columns tell them:
	// another cluster answers under the name, or the server crashed since, and gave an id that no flushed record
	// carried to a transaction of its new life. A crash throws the statistics away, and with them the time of their reset.
	statusSQL = `SELECT pg_is_in_recovery(), CASE WHEN NOT pg_is_in_recovery() THEN ` + timelineSQL + ` END,
	CASE WHEN NOT pg_is_in_recovery() THEN pg_xact_status($1::text::xid8) END`
	incarnationSQL = `SELECT coalesce(stats_reset::text, '') FROM pg_stat_bgwriter`
	systemSQL      = `SELECT system_identifier::text FROM pg_control_system()`
)

// server is the life of the cluster that a connection has reached: it cannot outlive a crash, since its connection does not.
type server struct {
	system      string // empty where the role may not ask
	incarnation string
}

// serverOf asks once for each connection.
func serverOf(ctx context.Context, conn *pgx.Conn) (server, error) {
	const key = "txmsg.server"
	known := conn.PgConn().CustomData()
	if s, ok := known[key].(server); ok {
		return s, nil
	}
	var s server
	if err := conn.QueryRow(ctx, incarnationSQL).Scan(&s.incarnation); err != nil {
		return s, err
	}
	var refused *pgconn.PgError
	if err := conn.QueryRow(ctx, systemSQL).Scan(&s.system); err != nil && !errors.As(err, &refused) {
		return s, err
	}
	known[key] = s
	return s, nil
}

// Outcome implements [txmsg.Transaction]. It asks for the status of the transaction's id. It does not look for a row that
// the transaction wrote: INSERT and COMMIT may still be on their way to the server, and a row that is not there yet, or
// was delivered and removed since, says nothing.
func (t *transaction) Outcome(ctx context.Context) (txmsg.Outcome, error) {
	if t.id.xid == "" {
		return txmsg.RolledBack, nil // BEGIN was never answered, so COMMIT was never sent
	}
	wait := 5 * time.Millisecond
	for {
		outcome, final, err := t.ask(ctx)
		if final {
			return outcome, nil
		}
		if err != nil {
			t.db.logger.DebugContext(ctx, "ask for outcome", "error", err)
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return txmsg.Unknown, fmt.Errorf("postgres: ask for outcome: %w", err)
			}
			return txmsg.Unknown, fmt.Errorf("postgres: transaction is still in progress: %w", context.Cause(ctx))
		case <-time.After(wait):
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
}

// ask opens a connection of its own: one of the pool may have to be waited for, and may lead to a server that is no longer
// the primary.
func (t *transaction) ask(ctx context.Context) (outcome txmsg.Outcome, final bool, err error) {
	conn, err := t.db.connect(ctx)
	if err != nil {
		return txmsg.Unknown, false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	now, err := serverOf(ctx, conn)
	if err != nil {
		return txmsg.Unknown, false, err
	}
	var standby bool
	var timeline, status *string
	if err := conn.QueryRow(ctx, statusSQL, t.id.xid).Scan(&standby, &timeline, &status); err != nil {
		return txmsg.Unknown, false, err
	}
	if standby {
		return txmsg.Unknown, false, errors.New("the server is a standby")
	}
	outcome, final = verdict(t.id, t.server, now, *timeline, status)
	return outcome, final, nil
}

// verdict judges a status. After a crash only "committed" is in doubt: a transaction whose commit was durable keeps its id.
func verdict(id transactionID, then, now server, timeline string, status *string) (outcome txmsg.Outcome, final bool) {
	if timeline != id.timeline || then.system != now.system || status == nil {
		return txmsg.Unknown, true
	}
	switch *status {
	case "committed":
		if then.incarnation == now.incarnation && now.incarnation != "" {
			return txmsg.Committed, true
		}
		return txmsg.Unknown, true
	case "aborted":
		return txmsg.RolledBack, true
	default:
		return txmsg.Unknown, false
	}
}

// connect opens a connection as the pool would.
func (db *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	return db.connectTo(ctx, db.pool.Config().ConnConfig)
}

// connectTo opens a connection to where cfg leads, with the pool's hooks.
func (db *DB) connectTo(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	pool := db.pool.Config()
	cfg = cfg.Copy()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, cfg); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, conn); err != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // the first error is the one to tell
			return nil, err
		}
	}
	return conn, nil
}

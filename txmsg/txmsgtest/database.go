package txmsgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/txmsg/txmsg-go/txmsg"
)

// ErrConflict is returned by Transact of [Memory] when its runs are used up: a value that the transaction has read was
// changed by another one before the commit.
var ErrConflict = errors.New("txmsgtest: a value that was read has changed")

// database holds texts by key, with serializable transactions that never wait: the one that
// commits second loses and is run again.
type database struct {
	log *log

	mu       sync.Mutex
	values   map[string]string
	versions map[string]int64 // the commit that last changed a key, deletions included
	commits  int64
}

var _ txmsg.Database[*Tx] = (*database)(nil)

func newDatabase() *database {
	return &database{log: newLog(), values: map[string]string{}, versions: map[string]int64{}}
}

func (d *database) Values() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.values)
}

func (d *database) Begin(ctx context.Context, savepoint func() (rollback func())) (txmsg.Transaction[*Tx], error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("txmsgtest: begin: %w", context.Cause(ctx))
	}
	return &transaction{tx: &Tx{db: d, savepoint: savepoint, read: map[string]int64{}, changes: map[string]change{}}}, nil
}

func (d *database) Exec(_ context.Context, tx *Tx, stmts ...txmsg.Statement) error {
	if tx.ended {
		return errEnded
	}
	tx.along = append(tx.along, stmts...)
	return nil
}

func (d *database) Conflict(err error) bool { return errors.Is(err, ErrConflict) }

// commit applies a transaction, values and messages at once.
func (d *database) commit(tx *Tx, along []txmsg.Statement) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, version := range tx.read {
		if d.versions[key] != version {
			return fmt.Errorf("%w: %q", ErrConflict, key)
		}
	}
	d.commits++
	for key, change := range tx.changes {
		d.versions[key] = d.commits
		if change.deleted {
			delete(d.values, key)
		} else {
			d.values[key] = change.value
		}
	}
	for _, stmt := range append(tx.along, along...) {
		for _, m := range stmt.Args {
			d.log.append(m.(txmsg.Message))
		}
	}
	return nil
}

// transaction is a Tx as the engine sees it.
type transaction struct {
	tx      *Tx
	outcome txmsg.Outcome
}

func (t *transaction) Tx() *Tx { return t.tx }

func (t *transaction) Commit(_ context.Context, along ...txmsg.Statement) error {
	if t.tx.ended {
		return fmt.Errorf("txmsgtest: commit: %w", txmsg.ErrRolledBack)
	}
	t.tx.ended = true
	t.outcome = txmsg.RolledBack
	if err := t.tx.db.commit(t.tx, along); err != nil {
		return err
	}
	t.outcome = txmsg.Committed
	return nil
}

func (t *transaction) Rollback(context.Context) error {
	if !t.tx.ended {
		t.tx.ended, t.outcome = true, txmsg.RolledBack
	}
	return nil
}

func (t *transaction) Outcome(context.Context) (txmsg.Outcome, error) { return t.outcome, nil }

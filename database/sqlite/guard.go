package sqlite

import (
	"fmt"
	"sync/atomic"

	driver "modernc.org/sqlite"
)

// guard watches the connection of a writer. SQLite rolls a transaction back by itself after some errors and is then in
// autocommit mode, where every further statement of a callback that has swallowed the error would commit on its own.
// The guard sees the rollback and turns every commit into a rollback until it is permitted: the one that
// [transaction.Commit] asks for. It also refuses savepoints that are not of [DB.Nested]: what is published in them
// would outlive their rollback.
type guard struct {
	conn any                  // the driver's connection that has the hooks; belongs to who has the gate
	fate atomic.Pointer[fate] // of the transaction on it; nil between transactions
}

// fate is what the guard knows of one transaction.
type fate struct {
	permitted atomic.Bool // to commit
	nesting   atomic.Bool // the savepoint is ours
	gone      atomic.Bool // rolled back, by whomever
}

// watch sets the hooks of a connection that does not have them.
func (g *guard) watch(conn any) error {
	if conn == g.conn {
		return nil
	}
	hooks, ok := conn.(interface {
		driver.HookRegisterer
		driver.AuthorizerRegisterer
	})
	if !ok {
		return fmt.Errorf("driver connection %T has no hooks", conn)
	}
	hooks.RegisterCommitHook(g.commit)
	hooks.RegisterRollbackHook(g.rollback)
	if err := hooks.RegisterAuthorizer(g.authorize); err != nil {
		return err
	}
	g.conn = conn
	return nil
}

// commit makes a rollback of the commit unless it returns 0.
func (g *guard) commit() int32 {
	if f := g.fate.Load(); f != nil && !f.permitted.Load() {
		return 1
	}
	return 0
}

func (g *guard) rollback() {
	if f := g.fate.Load(); f != nil {
		f.gone.Store(true)
	}
}

func (g *guard) authorize(action driver.AuthorizerActionCode, _, _, _, _ string) driver.AuthorizerReturnCode {
	if f := g.fate.Load(); f != nil && action == driver.AuthSavepoint && !f.nesting.Load() {
		return driver.AuthorizerDeny
	}
	return driver.AuthorizerOK
}

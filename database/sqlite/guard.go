package sqlite

import (
	"fmt"
	"sync/atomic"

	driver "modernc.org/sqlite"
)

// guard watches a connection while a transaction of ours is on it. SQLite rolls a transaction back by itself after
// some errors and is then in autocommit mode, where every further statement of a callback that has swallowed the
// error would commit on its own. The guard sees the rollback and turns every commit into a rollback until it is permitted:
// the one that [transaction.Commit] asks for.
type guard struct {
	permitted atomic.Bool
	gone      atomic.Bool
}

func (g *guard) permit() { g.permitted.Store(true) }

// rolledBack reports whether the transaction has been rolled back, by whomever.
func (g *guard) rolledBack() bool { return g.gone.Load() }

func (g *guard) watch(conn any) error {
	hooks, ok := conn.(driver.HookRegisterer)
	if !ok {
		return fmt.Errorf("driver connection %T has no commit hook", conn)
	}
	hooks.RegisterCommitHook(func() int32 {
		if g.permitted.Load() {
			return 0
		}
		return 1
	})
	hooks.RegisterRollbackHook(func() { g.gone.Store(true) })
	return nil
}

func unwatch(conn any) error {
	if hooks, ok := conn.(driver.HookRegisterer); ok {
		hooks.RegisterCommitHook(nil)
		hooks.RegisterRollbackHook(nil)
	}
	return nil
}

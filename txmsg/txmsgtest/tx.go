package txmsgtest

import (
	"errors"
	"maps"

	"github.com/txmsg/txmsg-go/txmsg"
)

var errEnded = errors.New("txmsgtest: the transaction has ended")

// Tx is a transaction of [Memory]. It sees what was committed and what it has changed itself. One goroutine uses it.
type Tx struct {
	db        *database
	savepoint func() (rollback func())
	read      map[string]int64 // versions that the transaction rests on
	changes   map[string]change
	along     []txmsg.Statement
	ended     bool
}

type change struct {
	value   string
	deleted bool
}

// Get returns the value of key and whether there is one.
func (t *Tx) Get(key string) (string, bool) {
	if change, ok := t.changes[key]; ok {
		return change.value, !change.deleted
	}
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if _, ok := t.read[key]; !ok {
		t.read[key] = t.db.versions[key]
	}
	value, ok := t.db.values[key]
	return value, ok
}

// Put sets the value of key. It is an error once the transaction has ended.
func (t *Tx) Put(key, value string) error { return t.change(key, change{value: value}) }

// Delete removes key, if it is there. It is an error once the transaction has ended.
func (t *Tx) Delete(key string) error { return t.change(key, change{deleted: true}) }

func (t *Tx) change(key string, c change) error {
	if t.ended {
		return errEnded
	}
	t.changes[key] = c
	return nil
}

// Nested runs fn as a nested transaction. If fn returns an error or panics, what it has changed and published is
// forgotten, and the error is returned.
func (t *Tx) Nested(fn func(tx *Tx) error) error {
	if t.ended {
		return errEnded
	}
	forget, changes, along := t.savepoint(), maps.Clone(t.changes), len(t.along)
	committed := false
	defer func() {
		if !committed {
			forget()
			t.changes, t.along = changes, t.along[:along]
		}
	}()
	err := fn(t)
	committed = err == nil
	return err
}

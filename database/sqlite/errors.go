package sqlite

import (
	"errors"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conflict implements [txmsg.Database]: another process, or another connection of this one, held the lock for longer
// than the busy timeout.
func (db *DB) Conflict(err error) bool {
	switch primary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// primary returns SQLite's primary result code of err, 0 when SQLite has not said a word.
func primary(err error) int {
	var answer *driver.Error
	if !errors.As(err, &answer) {
		return sqlite3.SQLITE_OK
	}
	return answer.Code() & 0xff
}

// harmless reports whether a COMMIT that answered err is known to have written nothing to the log: it did not get a
// lock, a constraint stopped it, or there was no transaction. After an error of the disk the log may hold all of it.
func harmless(err error) bool {
	switch primary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR:
		return true
	}
	return false
}

package sqlite

import "github.com/txmsg/txmsg-go/localtable"

// Statements returns the statements that run all the time, by what they do.
func (db *DB) Statements() map[string]string {
	return map[string]string{
		"read": readMessages, "compare": compareMessages, "archive": archiveMessages, "remove": removeMessages,
		"others": readOthers, "fail": failMessage, "unpark": unparkMessages, "park": parkMessages, "sweep": sweepMessages,
		"prune messages": pruneMessages, "prune inbox": pruneInbox, "status": messageStatus,
	}
}

// FindStatement returns the statement that finds rows of these states.
func FindStatement(states ...localtable.State) string {
	return findMessages + wholeMessages + " WHERE m.seq > ?1 AND " + statesSQL(states) + " ORDER BY m.seq LIMIT 10"
}

package sqlite

// Statements returns the statements that run all the time, by what they do.
func (db *DB) Statements() map[string]string {
	return map[string]string{
		"read": readMessages, "compare": compareMessages, "archive": archiveMessages, "remove": removeMessages,
		"others": readOthers, "fail": failMessage, "unpark": unparkMessages, "park": parkMessages, "sweep": sweepMessages,
		"prune messages": pruneMessages, "prune inbox": pruneInbox, "status": messageStatus,
	}
}

package localtable

// queue orders the rows of a batch into calls that hold at most one row of each key. The next row of a key is given out only
// after its predecessor; what became of that one decides whether it is.
type queue struct {
	lines   []*line // that have rows left
	skipped []Row   // that the selector does not allow
	behind  []Row   // later ones of their keys
}

// line is the rows of one key, or one row without a key.
type line struct {
	rows []Row
	held bool // by a row that was skipped: the later ones are, too
	left bool // where they stand: the later ones, from one on that the selector does not allow behind one that is sent
	sent bool // it has a row that is in order
}

// newQueue leaves out followers, which it returns, and rows that the selector does not allow. Of those, skipped has only the
// ones before which no row of their key is sent: what becomes of that one is not known yet, and if it stays ready or is
// parked, nothing later may be in retry, which is read at its own time and asks only for the failed and parked rows before it.
func newQueue(rows []Row, allow *selector) (q *queue, followers []Row) {
	q = &queue{lines: make([]*line, 0, len(rows))}
	byKey := make(map[string]*line, len(rows))
	slab := make([]line, len(rows))
	for i, row := range rows {
		if row.Follower {
			followers = append(followers, row)
			continue
		}
		l := byKey[row.Message.Key]
		if l == nil || row.Message.Key == "" {
			l = &slab[i]
			q.lines = append(q.lines, l)
			if row.Message.Key != "" {
				byKey[row.Message.Key] = l
			}
		}
		ordered := !row.Delayed
		switch {
		case l.left && ordered:
		case l.held && ordered:
			q.behind = append(q.behind, row)
		case !allow.allows(row.Message.Topic):
			if l.sent && ordered {
				l.left = true
				break
			}
			q.skipped = append(q.skipped, row)
			l.held = l.held || ordered
		case l.rows == nil:
			l.rows, l.sent = rows[i:i+1:i+1], ordered // most keys have one row
		default:
			l.rows, l.sent = append(l.rows, row), l.sent || ordered
		}
	}
	return q, followers
}

// next returns the next call's rows and the lines they are from; none when there are no more. Rows of lanes that are not
// standing and of topics that are silent are dropped with what follows them.
func (q *queue) next(standing map[int]bool, silent map[string]bool) (rows []*Row, from []*line) {
	lines := q.lines[:0]
	rows, from = make([]*Row, 0, len(q.lines)), make([]*line, 0, len(q.lines))
	for _, l := range q.lines {
		for len(l.rows) > 0 && (!standing[l.rows[0].Lane] || silent[l.rows[0].Message.Topic]) {
			if !l.rows[0].Delayed {
				l.stop()
			} else {
				l.rows = l.rows[1:]
			}
		}
		if len(l.rows) == 0 {
			continue
		}
		rows, from = append(rows, &l.rows[0]), append(from, l)
		if l.rows = l.rows[1:]; len(l.rows) > 0 {
			lines = append(lines, l)
		}
	}
	q.lines = lines
	return rows, from
}

// stop ends a line and returns the rows that stay unsent. Delayed ones go on: they are outside the order.
func (l *line) stop() (stopped []Row) {
	var on []Row
	for _, row := range l.rows {
		if row.Delayed {
			on = append(on, row)
		} else {
			stopped = append(stopped, row)
		}
	}
	l.rows = on
	return stopped
}

package postgres

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

const (
	sightInterval = 1 // seconds of the database's clock, like those below

	// netInterval is between two reads of a lane from its very front: the net for rows that were put in by hand, and the way to
	// catch up in a lane that another relay had meanwhile.
	netInterval = 30
)

// horizon remembers how far the front of a destination's lanes is empty, and reads begin behind it. Else every read would walk over
// the index entries of all that was delivered, which nobody can remove while someone holds an old snapshot.
//
// That a row was delivered says nothing about those before it: a transaction may have taken its seq early and commit late.
// But an INSERT locks the table before it takes its seq, and unlocks it when its outcome is to be seen. So: note the last seq
// that was given; then note who holds the lock; when all of those have let go, every row up to that seq can be seen or will never be.
// A read that begins then or later and finds nothing, or finds a first row, knows that nothing stands before it, up to that seq; so does
// a settlement of all that such a read has found. Neither a transaction that only reads nor one that writes elsewhere is waited for.
//
// Two things bring rows back that a read did not see. A parked row that becomes ready keeps its seq: the transaction that
// moves it adds to txmsg_lane.reopened, and a bound counts only while that is as it was. A crash of the server or the promotion of a
// standby takes back commits that were seen, and gives seqs again: either empties txmsg_incarnation, and a bound counts only
// while the row that was there is there. The statement that reads looks at both, in its own snapshot.
type horizon struct {
	mu          sync.Mutex
	deep        bool // the last batch was full: lanes are looked at in two steps, see readSQL
	incarnation string
	bounds      [localtable.Lanes]bound
	leading     [localtable.Lanes]leading
	watch       *watch
	cleared     *clearance
	looking     bool    // a sight is being taken: one at a time, so that they are taken in order
	stale       bool    // rows were read since a watch began, or a lane was read from its very front
	now         float64 // of the last read
	looked      float64 // when the last sight was taken
}

// bound is a fact about one lane: no ready row has a seq up to low, and none will, as long as the lane is not reopened.
type bound struct {
	known         bool
	low, reopened int64
	checked       float64 // when the lane was last read from its very front
}

// leading is the ready rows that the last read of a lane found, if it began after a clearance. When all of them were settled, nothing
// stands where they stood.
type leading struct {
	seqs    []int64
	left    int // of them, that were not settled
	cleared *clearance
}

// watch is for those who may have taken a seq up to last.
type watch struct {
	last     int64
	open     []string // of them, the transactions that have not let go
	prepared bool     // of them, those are known that were prepared meanwhile and may go on under another name
}

// clearance is what a watch ends with: every row up to last can be seen, or will never be.
type clearance struct {
	last     int64
	reopened [localtable.Lanes]int64 // as it was then
}

// over reports whether none is left, given all that now hold the lock.
func (w *watch) over(holders []string) bool {
	w.open = slices.DeleteFunc(w.open, func(name string) bool { return !slices.Contains(holders, name) })
	if len(w.open) == 0 && !w.prepared {
		w.prepared = true
		for _, name := range holders {
			if strings.HasPrefix(name, preparedPrefix) {
				w.open = append(w.open, name)
			}
		}
	}
	return len(w.open) == 0
}

const preparedPrefix = "-1/"

// lastSeqSQL is the last seq that was given. Where sessions are given seqs in stock nobody can say, and there is none.
const lastSeqSQL = `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM txmsg_ready_seq_seq
WHERE (SELECT seqcache FROM pg_sequence WHERE seqrelid = 'txmsg_ready_seq_seq'::regclass) = 1`

// sightSQL must be a later statement than lastSeqSQL. This mode of lock is the one that every INSERT takes, also one whose
// transaction holds a stronger one.
const sightSQL = `SELECT ARRAY(SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'txmsg_ready'::regclass AND mode = 'RowExclusiveLock' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid IS DISTINCT FROM pg_backend_pid()),
    (SELECT i.id::text FROM txmsg_incarnation i),
    ARRAY(SELECT l.reopened FROM txmsg_lane l ORDER BY l.lane), ARRAY(SELECT l.lane FROM txmsg_lane l ORDER BY l.lane)`

// sight is what is seen just before a read.
type sight struct {
	last        *int64
	holders     []string
	incarnation *string
	reopened    []int64
	lanes       []int16
}

func (s *sight) queue(batch *pgx.Batch, sql func(string) string) {
	batch.Queue(sql(lastSeqSQL)).Query(func(rows pgx.Rows) error {
		last, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if len(last) > 0 {
			s.last = &last[0]
		}
		return err
	})
	batch.Queue(sql(sightSQL)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&s.holders, &s.incarnation, &s.reopened, &s.lanes)
	})
}

// Where a read of a lane begins: at its very front, or not at all.
const (
	front   = math.MinInt64
	nowhere = math.MaxInt64
)

// glance is one read: what it begins with and, if one is taken, the sight before it.
type glance struct {
	deep        bool
	lows        []int64 // of every lane
	reopened    []int64
	incarnation *string
	cleared     *clearance
	sight       *sight
}

func (db *DB) horizon(destination string) *horizon {
	h, ok := db.horizons.Load(destination)
	if !ok {
		h, _ = db.horizons.LoadOrStore(destination, &horizon{})
	}
	return h.(*horizon)
}

// begin returns what a read of these lanes begins with. It must be given to end.
func (h *horizon) begin(lanes []localtable.Lane) *glance {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &glance{deep: h.deep, lows: slices.Repeat([]int64{nowhere}, localtable.Lanes), reopened: make([]int64, localtable.Lanes)}
	if h.incarnation != "" {
		g.incarnation, g.cleared = new(h.incarnation), h.cleared
	}
	for _, lane := range lanes {
		b := &h.bounds[lane.Number]
		g.lows[lane.Number], g.reopened[lane.Number] = front, b.reopened
		switch {
		case !b.known, passed(h.now, b.checked, netInterval):
			h.stale = true
		default:
			g.lows[lane.Number] = b.low
		}
	}
	if !h.looking && (h.stale || h.watch != nil) && passed(h.now, h.looked, sightInterval) {
		g.sight, h.looking = &sight{}, true
	}
	return g
}

// passed also says yes when the clock was set back.
func passed(now, since, interval float64) bool { return now < since || now-since >= interval }

// fail ends a glance whose read failed.
func (h *horizon) fail(g *glance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.sight != nil {
		h.looking = false
	}
}

// end learns from what a read at this time found.
func (h *horizon) end(g *glance, now float64, rows []localtable.Row, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
	h.deep = len(rows) >= limit
	h.stale = h.stale || len(rows) > 0
	found := findingsOf(rows, len(rows) < limit)
	for lane, low := range g.lows {
		if low != nowhere {
			h.leading[lane] = leading{}
		}
		b := &h.bounds[lane]
		if low == front && found.tells(lane) {
			b.checked = now
		}
		if seqs := found.seqs[lane]; len(seqs) > 0 && seqs[0] <= b.low {
			b.known = false // the lane was reopened, or a row was put in by hand, and more may stand where it stood
		}
	}
	if g.sight != nil {
		h.looking, h.looked = false, now
		h.learn(g, len(rows) > 0)
	}
	if g.cleared != nil && *g.incarnation == h.incarnation {
		h.advance(g, found)
	}
}

// findings are the ready rows of a read, by lane: of each the first ones, without a gap.
type findings struct {
	seqs     [localtable.Lanes][]int64
	complete bool // a lane without one has none
}

func findingsOf(rows []localtable.Row, complete bool) *findings {
	found := &findings{complete: complete}
	var counts [localtable.Lanes]int
	for _, row := range rows {
		counts[row.Lane]++
	}
	for _, row := range rows {
		if _, state := unpack(row.Revision); state == stateReady {
			if found.seqs[row.Lane] == nil {
				found.seqs[row.Lane] = make([]int64, 0, counts[row.Lane])
			}
			found.seqs[row.Lane] = append(found.seqs[row.Lane], row.Seq)
		}
	}
	return found
}

func (f *findings) tells(lane int) bool { return f.complete || len(f.seqs[lane]) > 0 }

// learn goes on with the watch, by the sight that was taken before the read. What is cleared by it was cleared before the read.
func (h *horizon) learn(g *glance, more bool) {
	s := g.sight
	if s.incarnation == nil || s.last == nil {
		return
	}
	if *s.incarnation != h.incarnation {
		h.incarnation, h.bounds, h.leading = *s.incarnation, [localtable.Lanes]bound{}, [localtable.Lanes]leading{}
		h.watch, h.cleared, h.stale = nil, nil, true
	}
	h.clear(s)
	if h.watch == nil && h.stale {
		h.watch, h.stale = &watch{last: *s.last, open: slices.Clone(s.holders)}, more
		h.clear(s)
	}
	g.incarnation, g.cleared = s.incarnation, h.cleared
}

// clear ends the watch if it is over.
func (h *horizon) clear(s *sight) {
	if h.watch == nil || !h.watch.over(s.holders) {
		return
	}
	h.cleared = &clearance{last: h.watch.last}
	for i, lane := range s.lanes {
		h.cleared.reopened[lane] = s.reopened[i]
	}
	h.watch = nil
}

// advance sets bounds: every row up to what is cleared was to be seen by the read, if there is one. The counts of reopening are from
// before the read, so that a row which it missed is not counted in.
func (h *horizon) advance(g *glance, found *findings) {
	for lane, low := range g.lows {
		if low == nowhere || !found.tells(lane) {
			continue
		}
		if seqs := found.seqs[lane]; len(seqs) > 0 {
			h.pass(lane, seqs[0]-1, g.cleared)
			h.leading[lane] = leading{seqs, len(seqs), g.cleared}
		} else {
			h.pass(lane, g.cleared.last, g.cleared)
		}
	}
}

// life is what settled must be given that was so before the settlement: what was settled in an earlier one may be back.
func (h *horizon) life() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.incarnation
}

// settled says that of these rows none is ready any more.
func (h *horizon) settled(life string, results []localtable.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if life != h.incarnation {
		return
	}
	for _, result := range results {
		if _, state := unpack(result.Row.Revision); state != stateReady {
			continue // it was counted when it failed
		}
		lane := result.Row.Lane
		l := &h.leading[lane]
		if _, found := slices.BinarySearch(l.seqs, result.Row.Seq); !found {
			continue
		}
		if l.left--; l.left == 0 {
			h.pass(lane, l.seqs[len(l.seqs)-1], l.cleared)
		}
	}
}

func (h *horizon) pass(lane int, low int64, cleared *clearance) {
	b := &h.bounds[lane]
	b.known, b.low, b.reopened = true, min(low, cleared.last), cleared.reopened[lane]
}

package localtable

import (
	"context"
	"slices"
	"time"
)

// A batch costs much the same however small it is, so under load the next look waits, and finds more: the relay shares its
// machines with those who write. A batch of few rows says that there is no load: the next one is not kept waiting, nor is it
// by one that takes long.
//
// How long it is kept waiting grows with the batches: where more than a row comes in each rowPatience, from wait to wait up to
// mostPatience.
const (
	few           = 4
	leastPatience = 10 * time.Millisecond
	rowPatience   = 500 * time.Microsecond
	mostPatience  = 50 * time.Millisecond
)

// rested is when a search may be asked for again that began at start and has ended: it takes a part of the time only.
func rested(start time.Time) time.Time {
	const times = 20
	return time.Now().Add(times * time.Since(start))
}

// databaseTimeout bounds every question to the database but the lease.
const databaseTimeout = 15 * time.Second

// reader looks for due rows of one destination and starts their batches: at once after a wake-up, else by polling; again at once when a batch
// was full. A lane is in at most one batch of a destination at a time, so batches never hold rows of the same key.
type reader[Tx any] struct {
	relay *relay[Tx]
	*destination
	done chan report

	under     int       // batches under way
	due       bool      // a wake-up or the poll asks for a look
	full      bool      // the last look found as much as it asked for: there may be more
	backlog   bool      // so it was when there was a lane to look at
	rest      bool      // the last look left lanes out and did not find as much as it asked for
	missed    []int     // lanes that were busy at the last look, and still are
	last      int       // rows of the last look
	looked    time.Time // last
	notBefore time.Time
	from      int // lane that the next look begins with
	alarm     *time.Timer
	portion   int // rows of which a batch's bodies should fit into batchBytes

	othersAfter time.Time // the next search for other topics
}

// firstBatch is the most rows of a batch of which nobody knows how large their bodies are.
const firstBatch = 125

// batchBytes is what the bodies of a batch should take at most, judged by those of the batch before.
const batchBytes = 16 << 20

// report is what became of a batch.
type report struct {
	lanes     []Lane
	full      bool // its lanes may have more
	changed   int
	recovered bool // it was a probe of a destination that did not answer, and it was answered
}

// run starts batches until ctx ends, and returns when the last has ended. work bounds them.
func (r *reader[Tx]) run(ctx, work context.Context) {
	poll := time.NewTicker(r.relay.cfg.PollInterval)
	defer poll.Stop()
	r.alarm = time.NewTimer(0)
	defer r.alarm.Stop()
	r.portion = min(firstBatch, r.relay.cfg.BatchSize)
	for ctx.Err() == nil {
		for ctx.Err() == nil && (r.due || r.full || r.rest) && r.mayLook() {
			r.look(ctx, work)
		}
		wake := r.wake
		if r.due { // nothing is to be learnt from a wake-up, and there may be thousands while a look waits
			wake = nil
		}
		select {
		case <-ctx.Done():
		case <-wake:
			r.due = true
		case <-poll.C:
			r.due = true
		case <-r.alarm.C:
		case rep := <-r.done:
			r.finish(rep)
		}
	}
	for r.under > 0 {
		r.finish(<-r.done)
	}
}

// mayLook decides whether the look that is due is made now, and sets the alarm if time decides.
func (r *reader[Tx]) mayLook() bool {
	now := time.Now()
	patience := min(max(leastPatience, time.Duration(r.last)*rowPatience), mostPatience)
	switch {
	case r.under == r.Concurrency:
		return false
	case now.Before(r.notBefore):
		r.alarm.Reset(r.notBefore.Sub(now))
		return false
	case r.full, r.rest && r.under == 0, r.last <= few && r.under <= 1:
		return true
	case now.Sub(r.looked) < patience:
		r.alarm.Reset(patience - now.Sub(r.looked))
		return false
	default:
		return true
	}
}

func (r *reader[Tx]) look(ctx, work context.Context) {
	pass, wait := r.breaker.admit()
	if wait > 0 {
		r.notBefore = time.Now().Add(wait)
		return
	}
	rows, lanes := r.read(ctx, pass)
	if len(rows) == 0 {
		r.breaker.report(pass, answers{})
		return
	}
	r.relay.lanes.take(r.Destination, lanes)
	r.under++
	b := &batch[Tx]{relay: r.relay, destination: r.destination, pass: pass, rows: rows, full: r.full, lanes: lanes}
	go func() { r.done <- b.run(ctx, work) }()
}

// read returns due rows of idle lanes, and those lanes.
func (r *reader[Tx]) read(ctx context.Context, pass pass) ([]Row, []Lane) {
	select { // of rows that this look will see, and lanes that it will have
	case <-r.wake:
	default:
	}
	free, busy := r.relay.lanes.free(r.Destination, r.from)
	r.due, r.missed, r.full, r.rest = false, busy, false, false
	if len(free) == 0 {
		return nil, nil
	}
	part := false
	if r.backlog { // leave lanes to the batches that can go beside this one
		share := min(len(free), (len(free)+len(busy)+r.Concurrency-1)/r.Concurrency)
		part = share < len(free)
		free = free[:share]
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	r.looked = time.Now()
	limit := min(pass.limit, r.portion)
	rows, err := r.relay.store.Read(ctx, r.Destination, free, limit)
	if err != nil {
		if ctx.Err() != context.Canceled {
			r.notBefore = time.Now().Add(r.trouble.failed("read", err))
			r.due = true
		}
		return nil, nil
	}
	r.trouble.worked()
	r.last = len(rows)
	r.full = len(rows) >= limit
	r.measure(rows)
	r.backlog = r.full
	r.rest = part && !r.full
	if r.full && pass.open {
		rows = append(r.others(ctx, rows, free), rows...)
	}
	used := map[int]bool{}
	for _, row := range rows {
		used[row.Lane] = true
	}
	lanes := slices.DeleteFunc(free, func(lane Lane) bool { return !used[lane.Number] })
	if r.full && len(lanes) > 0 {
		r.from = lanes[len(lanes)-1].Number + 1
	} else {
		r.from++
	}
	if r.from >= Lanes {
		r.from = 0
	}
	return rows, lanes
}

// measure sets the portion by the rows of a batch. It at most doubles: the next rows may be larger.
func (r *reader[Tx]) measure(rows []Row) {
	bytes := 0
	for _, row := range rows {
		bytes += len(row.Message.Body)
	}
	if len(rows) > 0 {
		most := batchBytes / max(1, bytes/len(rows))
		r.portion = max(1, min(2*r.portion, most, r.relay.cfg.BatchSize))
	}
}

// others returns rows of topics that are not among rows. A topic that hangs may have more rows than a probe reads: that the
// broker answers for others would never be found out.
func (r *reader[Tx]) others(ctx context.Context, rows []Row, lanes []Lane) []Row {
	start := time.Now()
	if start.Before(r.othersAfter) {
		return nil
	}
	var topics []string
	for _, row := range rows {
		if !slices.Contains(topics, row.Message.Topic) {
			topics = append(topics, row.Message.Topic)
		}
	}
	found, err := r.relay.store.Others(ctx, r.Destination, lanes, topics, probeTopic)
	r.othersAfter = rested(start)
	if err != nil {
		if ctx.Err() != context.Canceled {
			r.trouble.failed("read others", err)
		}
		return nil
	}
	return found
}

// finish takes a batch's report. One that changed nothing gives no reason to look again before the next poll: what it found
// would be found again. But its lanes may have more if they were wanted meanwhile.
func (r *reader[Tx]) finish(rep report) {
	r.under--
	r.relay.lanes.done(r.Destination, rep.lanes)
	missed := len(r.missed)
	r.missed = slices.DeleteFunc(r.missed, func(number int) bool {
		return slices.ContainsFunc(rep.lanes, func(lane Lane) bool { return lane.Number == number })
	})
	r.due = r.due || len(r.missed) < missed || rep.changed > 0 && rep.recovered
	r.full = rep.changed > 0 && (r.full || rep.full)
	r.rest = rep.changed > 0 && r.rest
}

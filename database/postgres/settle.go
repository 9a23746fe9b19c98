package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txmsg/txmsg-go/localtable"
)

// Settle implements [localtable.Store]. It is one transaction and one round trip. Its first statement locks the lanes; the
// others see all that was settled, parked and taken over before the locks were granted. They run in an order in which each
// sees what the ones before have written: who is delivered, who failed, who no longer waits, who therefore does.
//
// Every way to change a message's row locks its lane first, the lanes in the order of their numbers.
func (db *DB) Settle(ctx context.Context, s localtable.Settlement) (changed int, err error) {
	plan := newSettling(s)
	if len(plan.lanes) == 0 {
		return 0, nil
	}
	h := db.horizon(s.Results[0].Row.Destination) // it knows no rows of others
	life := h.life()
	err = db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(settlePlanSQL)
		batch.Queue(db.sql(lockLanesSQL), plan.lanes, s.Owner)
		change := func(statement string, args ...any) {
			batch.Queue(db.sql(statement), args...).Exec(func(tag pgconn.CommandTag) error {
				changed += int(tag.RowsAffected())
				return nil
			})
		}
		settle := func(statement string, r *results, more ...any) {
			if len(r.seqs) > 0 {
				change(statement, append(r.args(s.Owner), more...)...)
			}
		}
		deleteReady, deleteHeld := deleteReadySQL, deleteHeldSQL
		if s.Archive {
			deleteReady, deleteHeld = archiveReadySQL, archiveHeldSQL
		}
		if sent := &plan.sent; len(sent.seqs) > 0 {
			change(deleteReady, s.Owner, plan.lanes, plan.epochs, sent.places, sent.seqs, sent.revisions)
		}
		settle(deleteHeld, &plan.delivered)
		settle(failReadySQL, &plan.failed.ready, plan.readyFailures.args(s)...)
		settle(failHeldSQL, &plan.failed.held, plan.heldFailures.args(s)...)
		if heads := plan.heads; len(heads.keys) > 0 && s.Unpark > 0 {
			batch.Queue(db.sql(unparkSQL), s.Owner, heads.lanes, heads.epochs, heads.destinations, heads.keys, localtable.UnparkShare(s.Unpark, len(heads.keys)))
		}
		settle(parkReadySQL, &plan.parked.ready)
		settle(parkHeldSQL, &plan.parked.held)
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: settle: %w", err)
	}
	if changed == len(s.Results) {
		h.settled(life, s.Results)
	}
	return changed, nil
}

// settling is a settlement as the columns of its statements.
type settling struct {
	lanes                       []int16 // of the rows, not all that the owner holds: a small batch locks few
	epochs                      []int64 // of lanes
	sent                        sent
	delivered                   results // held ones
	failed, parked              tables
	readyFailures, heldFailures failures
	heads                       heads
}

// tables are the rows of one fate, by the table that they stand in.
type tables struct{ ready, held results }

// sent are rows that were ready and are delivered: most rows, so they have columns of their own.
type sent struct {
	places          []pgtype.TID
	seqs, revisions []int64
}

type results struct {
	lanes        []int16
	epochs       []int64
	destinations []string
	seqs         []int64
	revisions    []int64
}

type failures struct {
	afters          []*int64 // in microseconds; nil for dead
	spent           []int32  // attempts
	errors, classes []string
}

// heads are the keys that something may no longer hold back.
type heads struct {
	lanes              []int16
	epochs             []int64
	destinations, keys []string
}

func newSettling(s localtable.Settlement) *settling {
	var used [localtable.Lanes]bool
	for _, result := range s.Results {
		used[result.Row.Lane] = true
	}
	plan := &settling{}
	var epochs [localtable.Lanes]*int64
	for _, lane := range s.Lanes {
		if used[lane.Number] {
			epochs[lane.Number] = new(lane.Epoch)
			plan.lanes, plan.epochs = append(plan.lanes, int16(lane.Number)), append(plan.epochs, lane.Epoch)
		}
	}
	rows := len(s.Results)
	plan.sent = sent{make([]pgtype.TID, 0, rows), make([]int64, 0, rows), make([]int64, 0, rows)}
	for _, result := range s.Results {
		if epoch := epochs[result.Row.Lane]; epoch != nil {
			plan.add(result, *epoch, s.Frees(result))
		}
	}
	return plan
}

func (p *settling) add(result localtable.Result, epoch int64, frees bool) {
	row := result.Row
	_, state := unpack(row.Revision)
	switch result.Fate {
	case localtable.Delivered:
		if state == stateReady {
			p.sent.add(row)
		} else {
			p.delivered.add(row, epoch)
		}
	case localtable.Retry, localtable.Dead:
		p.failed.add(row, epoch)
		if state == stateReady {
			p.readyFailures.add(result)
		} else {
			p.heldFailures.add(result)
		}
	case localtable.Parked:
		p.parked.add(row, epoch)
	}
	if frees && row.Head {
		p.heads.add(row, epoch)
	}
}

func (s *sent) add(row localtable.Row) {
	revision, _ := unpack(row.Revision)
	s.places, s.seqs, s.revisions = append(s.places, unpackPlace(row.Place)), append(s.seqs, row.Seq), append(s.revisions, revision)
}

func (t *tables) add(row localtable.Row, epoch int64) {
	if _, state := unpack(row.Revision); state == stateReady {
		t.ready.add(row, epoch)
	} else {
		t.held.add(row, epoch)
	}
}

func (r *results) add(row localtable.Row, epoch int64) {
	revision, _ := unpack(row.Revision)
	r.lanes, r.epochs, r.destinations = append(r.lanes, int16(row.Lane)), append(r.epochs, epoch), append(r.destinations, row.Destination)
	r.seqs, r.revisions = append(r.seqs, row.Seq), append(r.revisions, revision)
}

func (r *results) args(owner string) []any {
	return []any{owner, r.lanes, r.epochs, r.destinations, r.seqs, r.revisions}
}

func (f *failures) add(result localtable.Result) {
	var after *int64
	if result.Fate == localtable.Retry {
		after = new(microseconds(result.After))
	}
	spent := int32(1)
	if after != nil && result.Spared {
		spent = 0
	}
	f.afters, f.spent = append(f.afters, after), append(f.spent, spent)
	f.errors, f.classes = append(f.errors, text(result.Error)), append(f.classes, text(string(result.Class)))
}

func (f *failures) args(s localtable.Settlement) []any {
	if len(f.spent) == 0 {
		return nil
	}
	return []any{f.afters, f.spent, f.errors, f.classes, s.Errors, s.DeadHolds}
}

func (h *heads) add(row localtable.Row, epoch int64) {
	h.lanes, h.epochs = append(h.lanes, int16(row.Lane)), append(h.epochs, epoch)
	h.destinations, h.keys = append(h.destinations, row.Destination), append(h.keys, row.Message.Key)
}

// text makes a broker's words fit for a text column, which takes no NUL and no broken UTF-8.
func text(words string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(words, "\uFFFD"), "\x00", "\uFFFD")
}

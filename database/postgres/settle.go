package postgres

import (
	"context"
	"fmt"
	"slices"
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
	err = db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(settlePlanSQL)
		batch.Queue(db.sql(lockLanesSQL), plan.lanes, s.Owner)
		settle := func(results results, statement string, more ...any) {
			if len(results.seqs) == 0 {
				return
			}
			batch.Queue(db.sql(statement), append(results.args(s.Owner), more...)...).Exec(func(tag pgconn.CommandTag) error {
				changed += int(tag.RowsAffected())
				return nil
			})
		}
		if s.Archive {
			settle(plan.delivered.ready, archiveReadySQL, plan.delivered.ready.places)
			settle(plan.delivered.held, archiveHeldSQL)
		} else {
			settle(plan.delivered.ready, deleteReadySQL, plan.delivered.ready.places)
			settle(plan.delivered.held, deleteHeldSQL)
		}
		settle(plan.failed.ready, failReadySQL, append(plan.readyFailures.args(), s.Errors, s.DeadHolds)...)
		settle(plan.failed.held, failHeldSQL, append(plan.heldFailures.args(), s.Errors, s.DeadHolds)...)
		if heads := plan.heads; len(heads.keys) > 0 && s.Unpark > 0 {
			batch.Queue(db.sql(unparkSQL), s.Owner, heads.lanes, heads.epochs, heads.destinations, heads.keys, localtable.UnparkShare(s.Unpark, len(heads.keys)))
		}
		settle(plan.parked.ready, parkReadySQL)
		settle(plan.parked.held, parkHeldSQL)
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: settle: %w", err)
	}
	return changed, nil
}

// settling is a settlement as the columns of its statements.
type settling struct {
	lanes                       []int16 // of the rows, not all that the owner holds: a small batch locks few
	delivered, failed, parked   tables
	readyFailures, heldFailures failures
	heads                       heads
}

// tables are the rows of one fate, by the table that they stand in.
type tables struct{ ready, held results }

type results struct {
	lanes        []int16
	epochs       []int64
	destinations []string
	seqs         []int64
	revisions    []int64
	places       []pgtype.TID // of ready rows
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
	epochs := make(map[int]int64, len(s.Lanes))
	for _, lane := range s.Lanes {
		epochs[lane.Number] = lane.Epoch
	}
	plan := &settling{}
	for _, result := range s.Results {
		if epoch, ours := epochs[result.Row.Lane]; ours {
			plan.add(result, epoch, s.DeadHolds)
		}
	}
	slices.Sort(plan.lanes)
	plan.lanes = slices.Compact(plan.lanes)
	return plan
}

func (p *settling) add(result localtable.Result, epoch int64, deadHolds bool) {
	row := result.Row
	_, state := unpack(row.Revision)
	p.lanes = append(p.lanes, int16(row.Lane))
	switch result.Fate {
	case localtable.Delivered:
		p.delivered.add(row, epoch)
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
	settled := result.Fate == localtable.Delivered || result.Fate == localtable.Dead && !deadHolds
	if settled && row.Head {
		p.heads.add(row, epoch)
	}
}

func (t *tables) add(row localtable.Row, epoch int64) {
	revision, state := unpack(row.Revision)
	r := &t.held
	if state == stateReady {
		r = &t.ready
	}
	r.lanes, r.epochs, r.destinations = append(r.lanes, int16(row.Lane)), append(r.epochs, epoch), append(r.destinations, row.Destination)
	r.seqs, r.revisions, r.places = append(r.seqs, row.Seq), append(r.revisions, revision), append(r.places, unpackPlace(row.Place))
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

func (f *failures) args() []any { return []any{f.afters, f.spent, f.errors, f.classes} }

func (h *heads) add(row localtable.Row, epoch int64) {
	h.lanes, h.epochs = append(h.lanes, int16(row.Lane)), append(h.epochs, epoch)
	h.destinations, h.keys = append(h.destinations, row.Destination), append(h.keys, row.Message.Key)
}

// text makes a broker's words fit for a text column, which takes no NUL and no broken UTF-8.
func text(words string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(words, "\uFFFD"), "\x00", "\uFFFD")
}

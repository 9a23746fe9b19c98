package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/txmsg/txmsg-go/localtable"
)

// Settle implements [localtable.Store], in one transaction.
func (db *DB) Settle(ctx context.Context, s localtable.Settlement) (changed int, err error) {
	if len(s.Results) == 0 {
		return 0, nil
	}
	err = db.write(ctx, func(tx *sql.Tx) error {
		changed = 0
		held, err := holds(ctx, tx, s.Owner, s.Lanes)
		if err != nil || !held {
			return err
		}
		settling := &settling{tx: tx, settlement: s}
		changed, err = settling.run(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sqlite: settle messages: %w", err)
	}
	return changed, nil
}

// settling is the settlement of one batch in a transaction that has the write lock.
type settling struct {
	tx         *sql.Tx
	settlement localtable.Settlement
	open       []localtable.Result // those that still apply
	freed      map[group]bool      // keys whose failed head goes
	changed    int
}

// group is what order is kept in.
type group struct{ destination, key string }

func (s *settling) run(ctx context.Context) (int, error) {
	for _, step := range []func(context.Context) error{s.compare, s.deliver, s.fail, s.unpark, s.park} {
		if err := step(ctx); err != nil {
			return 0, err
		}
	}
	return s.changed, nil
}

// compare finds the results whose row has the revision that was read, and the keys that they may free.
func (s *settling) compare(ctx context.Context) error {
	read := make([][2]int64, len(s.settlement.Results))
	for i, result := range s.settlement.Results {
		read[i] = [2]int64{result.Row.Seq, result.Row.Revision}
	}
	found, err := s.tx.QueryContext(ctx, compareMessages, array(read))
	if err != nil {
		return err
	}
	defer found.Close()
	s.freed = map[group]bool{}
	for found.Next() {
		var i int
		var of group
		var head bool
		if err := found.Scan(&i, &of.destination, &of.key, &head); err != nil {
			return err
		}
		result := s.settlement.Results[i]
		s.open = append(s.open, result)
		if head && s.settlement.Frees(result) {
			s.freed[of] = true
		}
	}
	return found.Err()
}

func (s *settling) deliver(ctx context.Context) error {
	seqs := s.seqs(localtable.Delivered)
	if s.settlement.Archive {
		_, err := s.tx.ExecContext(ctx, archiveMessages, seqs)
		if err != nil {
			return err
		}
	}
	return s.change(ctx, removeMessages, seqs)
}

func (s *settling) fail(ctx context.Context) error {
	var stmt *sql.Stmt
	for _, result := range s.open {
		state := "retry"
		switch result.Fate {
		case localtable.Retry:
		case localtable.Dead:
			state = "dead"
		default:
			continue
		}
		if stmt == nil {
			var err error
			if stmt, err = s.tx.PrepareContext(ctx, failMessage); err != nil {
				return err
			}
			defer stmt.Close()
		}
		holds := state == "retry" || s.settlement.DeadHolds
		spent := state == "dead" || !result.Spared
		_, err := stmt.ExecContext(ctx, result.Row.Seq, state, holds, milliseconds(result.After), s.settlement.Errors,
			result.Class, result.Error, spent)
		if err != nil {
			return err
		}
		s.changed++
	}
	return nil
}

// unpark makes ready what waited only for the heads that are gone.
func (s *settling) unpark(ctx context.Context) error {
	for of := range s.freed {
		_, err := s.tx.ExecContext(ctx, unparkMessages, of.destination, of.key, localtable.UnparkShare(s.settlement.Unpark, len(s.freed)))
		if err != nil {
			return err
		}
	}
	return nil
}

// park comes last: behind the rows that failed in this batch, and behind no other that it has freed.
func (s *settling) park(ctx context.Context) error {
	return s.change(ctx, parkMessages, s.seqs(localtable.Parked))
}

func (s *settling) change(ctx context.Context, query, seqs string) error {
	result, err := s.tx.ExecContext(ctx, query, seqs)
	if err != nil {
		return err
	}
	count, err := result.RowsAffected()
	s.changed += int(count)
	return err
}

// seqs returns the rows of one fate as a JSON array.
func (s *settling) seqs(fate localtable.Fate) string {
	text := []byte{'['}
	for _, result := range s.open {
		if result.Fate != fate {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, result.Row.Seq, 10)
	}
	return string(append(text, ']'))
}

// array returns numbers as JSON, which they always have.
func array(numbers [][2]int64) string {
	text, _ := json.Marshal(numbers)
	return string(text)
}

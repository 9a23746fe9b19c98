package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/txmsg/txmsg-go/localtable"
)

var _ localtable.OperatorStore = (*DB)(nil)

// Decide implements [localtable.OperatorStore].
func (db *DB) Decide(ctx context.Context, d localtable.Decision) ([]localtable.Ref, error) {
	statement, known := changeSQL[d.Verb]
	if !known {
		return nil, fmt.Errorf("postgres: Decision.Verb must be retry, skip or release, got %q", d.Verb)
	}
	changed, err := db.decide(ctx, d, statement)
	if err != nil {
		return nil, fmt.Errorf("postgres: %s messages: %w", d.Verb, err)
	}
	return changed, nil
}

var changeSQL = map[localtable.Verb]string{
	localtable.VerbRetry: retryHeldSQL, localtable.VerbSkip: skipHeldSQL, localtable.VerbRelease: releaseHeldSQL,
}

func (db *DB) decide(ctx context.Context, d localtable.Decision, statement string) (changed []localtable.Ref, err error) {
	seqs, revisions := make([]int64, len(d.Refs)), make([]int64, len(d.Refs))
	for i, ref := range d.Refs {
		seqs[i], revisions[i] = ref.Seq, ref.Revision
	}
	keys, lanes, err := db.heldKeys(ctx, seqs)
	if err != nil || len(lanes) == 0 {
		return nil, err
	}
	err = db.pipeline(ctx, func(batch *pgx.Batch) {
		batch.Queue(planSQL)
		batch.Queue(db.sql(lockAnyLanesSQL), lanes)
		batch.Queue(db.sql(statement), seqs, revisions, d.Reason.Who, d.Reason.Why).Query(func(rows pgx.Rows) (err error) {
			changed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[localtable.Ref])
			return err
		})
		if d.Verb != localtable.VerbRetry && len(keys.keys) > 0 {
			batch.Queue(db.sql(unparkKeysSQL), keys.lanes, keys.destinations, keys.keys, localtable.UnparkShare(d.Unpark, len(keys.keys)))
		}
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// heldKeys returns the keys of rows, and the lanes of all of them, those without a key included.
func (db *DB) heldKeys(ctx context.Context, seqs []int64) (keys heads, lanes []int16, err error) {
	rows, err := db.pool.Query(ctx, db.sql(heldKeysSQL), seqs)
	if err != nil {
		return heads{}, nil, err
	}
	var lane int16
	var destination, key string
	_, err = pgx.ForEachRow(rows, []any{&lane, &destination, &key}, func() error {
		lanes = append(lanes, lane)
		if key != "" {
			keys.lanes = append(keys.lanes, lane)
			keys.destinations, keys.keys = append(keys.destinations, destination), append(keys.keys, key)
		}
		return nil
	})
	slices.Sort(lanes)
	return keys, slices.Compact(lanes), err
}

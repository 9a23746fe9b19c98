package localtable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

var because = localtable.Reason{Who: "ann", Why: "the broker is repaired"}

func operate(t *testing.T, store localtable.OperatorStore) *localtable.Operator {
	t.Helper()
	operator, err := localtable.NewOperator(store, localtable.OperatorConfig{})
	require.NoError(t, err)
	return operator
}

// graves returns a database with so many dead rows, m0 and so on, each of a key of its own.
func graves(t *testing.T, n int) *storetest.Memory {
	t.Helper()
	memory := storetest.NewMemory(1)
	var entries []localtable.Entry
	for _, id := range numbered("m", n) {
		entries = append(entries, localtable.Entry{Destination: "default", Message: of(id, id)[0]})
	}
	tx, err := memory.Begin(t.Context(), func() func() { return func() {} })
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context(), memory.Insert(entries)...))
	lease, err := memory.Lease(t.Context(), "relay", time.Hour)
	require.NoError(t, err)
	rows, err := memory.Read(t.Context(), "default", lease.Lanes, n)
	require.NoError(t, err)
	settlement := localtable.Settlement{Owner: "relay", Lanes: lease.Lanes, DeadHolds: true, Errors: 5}
	for _, row := range rows {
		settlement.Results = append(settlement.Results, localtable.Result{Row: row, Fate: localtable.Dead, Error: "no", Class: "refused"})
	}
	changed, err := memory.Settle(t.Context(), settlement)
	require.NoError(t, err)
	require.Equal(t, n, changed)
	return memory
}

func statusOf(t *testing.T, memory *storetest.Memory) localtable.Status {
	t.Helper()
	status, err := memory.Status(t.Context())
	require.NoError(t, err)
	status.OldestUnsent, status.Destinations = 0, nil
	return status
}

// between is a store that does something between the look and the change.
type between struct {
	*storetest.Memory
	act func(refs []localtable.Ref)
}

func (b *between) Decide(ctx context.Context, d localtable.Decision) ([]localtable.Ref, error) {
	b.act(d.Refs)
	return b.Memory.Decide(ctx, d)
}

func TestOperatorRefusesBadInput(t *testing.T) {
	operator := operate(t, graves(t, 1))
	ref := localtable.Ref{Seq: 1, Revision: 2}
	skip := func(who, why string, refs ...localtable.Ref) error {
		return operator.Skip(t.Context(), localtable.Reason{Who: who, Why: why}, refs...)
	}
	find := func(filter localtable.Filter, limit int) error {
		_, err := operator.Find(t.Context(), filter, 0, limit)
		return err
	}
	retry := func(filter localtable.Filter, opts localtable.RetryOptions) error {
		_, err := operator.Retry(t.Context(), because, filter, opts)
		return err
	}
	audit := func(filter localtable.AuditFilter, limit int) error {
		_, err := operator.Audit(t.Context(), filter, 0, limit)
		return err
	}
	for want, err := range map[string]error{
		`localtable: Reason.Who must not be empty, got ""`:                                                 skip("", "why", ref),
		`localtable: Reason.Why must not be empty, got "  "`:                                               skip("who", "  ", ref),
		`localtable: Reason.Who must be at most 255 bytes`:                                                 skip(strings.Repeat("x", 256), "why", ref),
		`localtable: Reason.Why must be at most 2000 bytes`:                                                skip("who", strings.Repeat("x", 2001), ref),
		`localtable: Reason.Who must be valid UTF-8, got "\xff"`:                                           skip("\xff", "why", ref),
		`localtable: Reason.Why must hold no control characters, got "a\nb"`:                               skip("who", "a\nb", ref),
		`localtable: refs must be between 1 and 500, got "0"`:                                              skip("who", "why"),
		`localtable: refs must be between 1 and 500, got "501"`:                                            operator.Release(t.Context(), because, make([]localtable.Ref, 501)...),
		`localtable: limit must be between 1 and 1000, got "0"`:                                            find(localtable.Filter{}, 0),
		`localtable: limit must be between 1 and 1000, got "1001"`:                                         audit(localtable.AuditFilter{}, 1001),
		`localtable: Filter.States must be nil or hold a state: an empty list would match nothing, got ""`: find(localtable.Filter{States: []localtable.State{}}, 1),
		`localtable: Filter.IDs must be nil or hold an id: an empty list would match nothing, got ""`:      retry(localtable.Filter{IDs: []string{}}, localtable.RetryOptions{}),
		`localtable: Filter.States[0] must be waiting, retry, parked or dead, got "ready"`:                 find(localtable.Filter{States: []localtable.State{"ready"}}, 1),
		`localtable: Filter.States[1] must be retry or dead, got "parked"`:                                 retry(localtable.Filter{States: []localtable.State{localtable.StateDead, localtable.StateParked}}, localtable.RetryOptions{}),
		`localtable: Filter.Key must be valid UTF-8 without NUL, got "a\x00"`:                              find(localtable.Filter{Key: "a\x00"}, 1),
		`localtable: Filter.IDs[1] must be valid UTF-8 without NUL, got "\xff"`:                            retry(localtable.Filter{IDs: []string{"a", "\xff"}}, localtable.RetryOptions{}),
		`localtable: Filter.IDs must be at most 1000, got "1001"`:                                          find(localtable.Filter{IDs: make([]string, 1001)}, 1),
		`localtable: AuditFilter.Verb must be retry, skip or release, got "drop"`:                          audit(localtable.AuditFilter{Verb: "drop"}, 1),
		`localtable: AuditFilter.Who must be valid UTF-8 without NUL, got "\x00"`:                          audit(localtable.AuditFilter{Who: "\x00"}, 1),
		`localtable: RetryOptions.Rate must be at least 0, got "-1"`:                                       retry(localtable.Filter{}, localtable.RetryOptions{Rate: -1}),
		`localtable: RetryOptions.Limit must be at least 0, got "-2"`:                                      retry(localtable.Filter{}, localtable.RetryOptions{Limit: -2}),
		"localtable: Reason.Who must not be empty, got \"\"\nlocaltable: Reason.Why must not be":           skip("", "", ref),
	} {
		require.ErrorContains(t, err, want)
		var argument *localtable.ArgumentError
		require.ErrorAs(t, err, &argument)
	}
	_, err := localtable.NewOperator(nil, localtable.OperatorConfig{})
	require.EqualError(t, err, "localtable: store must not be nil")
	_, err = localtable.NewOperator(graves(t, 1), localtable.OperatorConfig{Timeout: -1})
	require.EqualError(t, err, "localtable: OperatorConfig.Timeout must be at least 1ms, got -1ns")
}

func TestOperatorNamesWhatWasDecided(t *testing.T) {
	memory := graves(t, 3)
	operator := operate(t, memory)
	rows, err := operator.Find(t.Context(), localtable.Filter{}, 0, 10)
	require.NoError(t, err)
	require.NoError(t, operator.Release(t.Context(), because, rows[0].Ref()))

	err = operator.Release(t.Context(), because, rows[0].Ref(), rows[1].Ref())
	var decided *localtable.DecidedError
	require.ErrorAs(t, err, &decided)
	require.Equal(t, &localtable.DecidedError{Verb: localtable.VerbRelease, Refs: []localtable.Ref{rows[0].Ref()}}, decided)
	require.EqualError(t, err, fmt.Sprintf("localtable: release: no longer dead and holding with the revision that was seen: %d (revision %d)", rows[0].Seq, rows[0].Revision))

	require.NoError(t, operator.Skip(t.Context(), because, rows[2].Ref()))
	require.ErrorAs(t, operator.Skip(t.Context(), because, rows[2].Ref()), &decided)
	entries, err := operator.Audit(t.Context(), localtable.AuditFilter{}, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the rows that were changed")
	require.Equal(t, localtable.Status{Dead: 2}, statusOf(t, memory))
}

func TestRetry(t *testing.T) {
	t.Run("takes all that matches, in steps", func(t *testing.T) {
		memory := graves(t, 1234)
		report, err := operate(t, memory).Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, localtable.RetryReport{Matched: 1234, Retried: 1234}, report)
		require.Equal(t, localtable.Status{Retry: 1234}, statusOf(t, memory))
		require.Equal(t, 3, memory.Calls().Decide)
	})

	t.Run("takes what is in retry too, unless the filter names dead", func(t *testing.T) {
		memory := graves(t, 3)
		operator := operate(t, memory)
		_, err := operator.Retry(t.Context(), because, localtable.Filter{IDs: []string{"m1"}}, localtable.RetryOptions{})
		require.NoError(t, err)
		report, err := operator.Retry(t.Context(), because, localtable.Filter{States: []localtable.State{localtable.StateDead}}, localtable.RetryOptions{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, localtable.RetryReport{Matched: 1, Retried: 1}, report)
		report, err = operator.Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, localtable.RetryReport{Matched: 3, Retried: 3}, report)
	})

	t.Run("a dry run counts and lists, and changes nothing", func(t *testing.T) {
		memory := graves(t, 1234)
		operator := operate(t, memory)
		report, err := operator.Retry(t.Context(), localtable.Reason{}, localtable.Filter{}, localtable.RetryOptions{DryRun: true, Rate: 1})
		require.NoError(t, err)
		require.Equal(t, 1234, report.Matched)
		require.Zero(t, report.Retried)
		rows, err := operator.Find(t.Context(), localtable.Filter{}, 0, 100)
		require.NoError(t, err)
		require.Equal(t, rows, report.Rows)
		require.Equal(t, "m0", string(rows[0].Message.Body))
		report, err = operator.Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{DryRun: true, Limit: 150})
		require.NoError(t, err)
		require.Equal(t, 150, report.Matched)
		require.Zero(t, memory.Calls().Decide)
		require.Equal(t, localtable.Status{Dead: 1234}, statusOf(t, memory))
	})

	t.Run("C22 leaves and counts rows that were changed since the look", func(t *testing.T) {
		memory := graves(t, 600)
		other := operate(t, memory)
		store := &between{Memory: memory, act: func(refs []localtable.Ref) {
			require.NoError(t, other.Skip(t.Context(), because, refs[0], refs[1]))
		}}
		report, err := operate(t, store).Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, localtable.RetryReport{Matched: 600, Retried: 596, Left: 4}, report)
		require.Equal(t, localtable.Status{Retry: 596}, statusOf(t, memory))
	})

	t.Run("makes no more due than its rate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			memory := graves(t, 95)
			start := time.Now()
			done := make(chan localtable.RetryReport, 1)
			operator := operate(t, memory)
			go func() {
				report, _ := operator.Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{Rate: 10})
				done <- report
			}()
			for second := range 9 {
				synctest.Wait()
				require.Equal(t, int64(10*(second+1)), statusOf(t, memory).Retry)
				time.Sleep(time.Second)
			}
			require.Equal(t, localtable.RetryReport{Matched: 95, Retried: 95}, <-done)
			require.Equal(t, 9*time.Second, time.Since(start))
		})
	})

	t.Run("a large rate goes in steps of no more than a step", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			memory, start := graves(t, 1500), time.Now()
			report, err := operate(t, memory).Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{Rate: 1000})
			require.NoError(t, err)
			require.Equal(t, 1500, report.Retried)
			require.Equal(t, 1500*time.Millisecond, time.Since(start), "the last step ends a full page, so there is one more look")
		})
	})

	t.Run("tells what it did when its context ends", func(t *testing.T) {
		memory := graves(t, 1234)
		ctx, cancel := context.WithCancel(t.Context())
		store := &between{Memory: memory, act: func([]localtable.Ref) {
			if memory.Calls().Decide == 1 {
				cancel() // within the second step, which is finished
			}
		}}
		report, err := operate(t, store).Retry(ctx, because, localtable.Filter{}, localtable.RetryOptions{})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, localtable.RetryReport{Matched: 1000, Retried: 1000}, report)
		require.Equal(t, localtable.Status{Retry: 1000, Dead: 234}, statusOf(t, memory))
	})

	t.Run("ends while it waits for its rate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			start := time.Now()
			report, err := operate(t, graves(t, 10)).Retry(ctx, because, localtable.Filter{}, localtable.RetryOptions{Rate: 1})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, localtable.RetryReport{Matched: 2, Retried: 2}, report)
			require.Equal(t, 1500*time.Millisecond, time.Since(start))
		})
	})

	t.Run("tells what it did when the database fails; the audit tells the rest", func(t *testing.T) {
		memory := graves(t, 1234)
		store := &between{Memory: memory, act: func([]localtable.Ref) {
			if memory.Calls().Decide == 1 {
				memory.SetFaults(storetest.Faults{LostDecisions: 1})
			}
		}}
		operator := operate(t, store)
		report, err := operator.Retry(t.Context(), because, localtable.Filter{}, localtable.RetryOptions{})
		require.True(t, errors.Is(err, storetest.ErrDown), "%v", err)
		require.Equal(t, localtable.RetryReport{Matched: 500, Retried: 500}, report)
		entries, err := operator.Audit(t.Context(), localtable.AuditFilter{}, 500, 1000)
		require.NoError(t, err)
		require.Len(t, entries, 500)
	})
}

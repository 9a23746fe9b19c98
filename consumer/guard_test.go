package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
)

var orderMoves = map[string][]string{"pending": {"paid", "failed", "cancelled"}, "paid": {"shipped"}, "shipped": {"delivered"}}

// memoryRow is a row in memory; "" is no row.
type memoryRow struct {
	state string
	err   error
	moves int
	raced string // what another transaction makes of the state after the first Move
}

func (r *memoryRow) Move(_ context.Context, to string, from []string) (bool, error) {
	if r.err != nil {
		return false, r.err
	}
	if slices.Contains(from, r.state) {
		r.state = to
		r.moves++
		return true, nil
	}
	if r.raced != "" {
		r.state, r.raced = r.raced, ""
	}
	return false, nil
}

func (r *memoryRow) State(context.Context) (string, bool, error) {
	return r.state, r.state != "", r.err
}

func TestGuard(t *testing.T) {
	guard, err := consumer.NewGuard(orderMoves)
	require.NoError(t, err)

	for _, row := range []struct {
		state, to string
		want      consumer.Passage
	}{
		{"pending", "paid", consumer.Moved},
		{"pending", "cancelled", consumer.Moved},
		{"paid", "paid", consumer.Duplicate},
		{"failed", "failed", consumer.Duplicate},
		{"shipped", "paid", consumer.Stale},
		{"delivered", "paid", consumer.Stale},
		{"pending", "shipped", consumer.Early},
		{"pending", "delivered", consumer.Early},
		{"paid", "delivered", consumer.Early},
		{"cancelled", "paid", consumer.Excluded},
		{"paid", "cancelled", consumer.Excluded},
		{"failed", "shipped", consumer.Excluded},
		{"", "paid", consumer.Missing},
	} {
		t.Run(fmt.Sprintf("%q to %q is %s", row.state, row.to, row.want), func(t *testing.T) {
			r := &memoryRow{state: row.state}
			got, err := guard.Move(t.Context(), r, row.to)
			require.NoError(t, err)
			require.Equal(t, row.want.String(), got.String())
			if row.want == consumer.Moved {
				require.Equal(t, row.to, r.state)
			} else {
				require.Equal(t, row.state, r.state)
			}
		})
	}

	t.Run("no order of the events makes a move that is not there", func(t *testing.T) {
		events := []string{"paid", "shipped", "delivered", "failed", "cancelled"}
		orders := permutations(events)
		require.Len(t, orders, 120)
		for _, order := range orders {
			r := &memoryRow{state: "pending"}
			path := []string{r.state}
			for _, to := range order {
				passage, err := guard.Move(t.Context(), r, to)
				require.NoError(t, err)
				if passage == consumer.Moved {
					path = append(path, r.state)
				}
			}
			for i := range len(path) - 1 {
				require.Contains(t, orderMoves[path[i]], path[i+1], "order %v took %v", order, path)
			}
			first := order[slices.IndexFunc(order, func(s string) bool { return slices.Contains(orderMoves["pending"], s) })]
			require.Equal(t, first, path[1], "order %v: the first that can, wins", order)
		}
	})

	t.Run("early events that come again bring every order to the same end", func(t *testing.T) {
		for _, order := range permutations([]string{"paid", "shipped", "delivered"}) {
			r := &memoryRow{state: "pending"}
			for waiting := slices.Clone(order); len(waiting) > 0; waiting = waiting[1:] {
				passage, err := guard.Move(t.Context(), r, waiting[0])
				require.NoError(t, err)
				if passage == consumer.Early {
					waiting = append(waiting, waiting[0])
				}
			}
			require.Equal(t, "delivered", r.state, "order %v", order)
			require.Equal(t, 3, r.moves)
		}
	})

	t.Run("a state that changed between the statements is tried again", func(t *testing.T) {
		r := &memoryRow{state: "pending", raced: "paid"}
		passage, err := guard.Move(t.Context(), r, "shipped")
		require.NoError(t, err)
		require.Equal(t, consumer.Moved, passage)
	})

	t.Run("what it does not know is an error", func(t *testing.T) {
		_, err := guard.Move(t.Context(), &memoryRow{state: "pending"}, "payed")
		require.ErrorContains(t, err, `no move to "payed"`)
		_, err = guard.Move(t.Context(), &memoryRow{state: "PENDING"}, "paid")
		require.ErrorContains(t, err, `no state "PENDING"`)
		broken := errors.New("connection reset")
		_, err = guard.Move(t.Context(), &memoryRow{err: broken}, "paid")
		require.ErrorIs(t, err, broken)
	})

	t.Run("a circle and an empty table are refused", func(t *testing.T) {
		for _, moves := range []map[string][]string{
			nil, {"a": nil}, {"a": {"a"}}, {"a": {"b"}, "b": {"c"}, "c": {"a"}}, {"x": {"a"}, "a": {"b"}, "b": {"a"}},
		} {
			_, err := consumer.NewGuard(moves)
			require.Error(t, err, "%v", moves)
		}
	})
}

func permutations(items []string) [][]string {
	if len(items) <= 1 {
		return [][]string{slices.Clone(items)}
	}
	var all [][]string
	for i, item := range items {
		rest := slices.Delete(slices.Clone(items), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, append([]string{item}, p...))
		}
	}
	return all
}

package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Guard makes state changes safe against messages that come late, early or twice: it moves an aggregate only along the moves
// that it was given, and tells why it did not.
type Guard struct {
	from  map[string][]string        // by target: the states that a move leads from
	after map[string]map[string]bool // by state: the states that some way leads to
}

// Row is one aggregate's row inside the handler's transaction.
type Row interface {
	// Move sets the state to to if it is one of from, in one statement, and reports whether it did:
	//
	//	UPDATE orders SET state = $2 WHERE id = $1 AND state = ANY($3)
	Move(ctx context.Context, to string, from []string) (moved bool, err error)
	// State returns the state of the row, and whether there is one.
	State(ctx context.Context) (state string, found bool, err error)
}

// Passage is what became of a move.
type Passage int

const (
	// Moved: the row is in the new state now.
	Moved Passage = iota + 1
	// Duplicate: it was there already.
	Duplicate
	// Stale: it was there once and has moved on. The message is to be dropped.
	Stale
	// Early: it will be able to go there, after a move whose message has not come yet. An error of the handler makes the
	// message come again.
	Early
	// Excluded: it has taken a way from which this state cannot be reached. Such a message is no accident of delivery: the
	// handler decides, by a refund for example.
	Excluded
	// Missing: there is no such row.
	Missing
)

func (p Passage) String() string {
	names := []string{"moved", "duplicate", "stale", "early", "excluded", "missing"}
	if p < Moved || int(p) > len(names) {
		return "unknown"
	}
	return names[p-1]
}

// NewGuard returns a Guard of these moves: the states that each state may go to. They must form no circle, for in one a state
// does not tell what is old and what is new.
func NewGuard(moves map[string][]string) (*Guard, error) {
	g := &Guard{from: map[string][]string{}, after: map[string]map[string]bool{}}
	for _, from := range slices.Sorted(maps.Keys(moves)) {
		for _, to := range moves[from] {
			if !slices.Contains(g.from[to], from) {
				g.from[to] = append(g.from[to], from)
			}
		}
	}
	if len(g.from) == 0 {
		return nil, errors.New("consumer: Guard must have at least one move")
	}
	for from, targets := range moves {
		for _, state := range append([]string{from}, targets...) {
			if g.after[state] == nil {
				g.after[state] = reachable(moves, state)
			}
			if g.after[state][state] {
				return nil, fmt.Errorf("consumer: Guard must have no circle, %q leads to itself", state)
			}
		}
	}
	return g, nil
}

func reachable(moves map[string][]string, start string) map[string]bool {
	reached := map[string]bool{}
	for ahead := slices.Clone(moves[start]); len(ahead) > 0; ahead = ahead[1:] {
		if state := ahead[0]; !reached[state] {
			reached[state] = true
			ahead = append(ahead, moves[state]...)
		}
	}
	return reached
}

// guardTries bounds the moves tried when others change the row between the statements.
const guardTries = 3

// Move moves row to the state to, if a move leads there from its state, and tells what became of it. An error is row's, or
// says that Guard does not know the state.
func (g *Guard) Move(ctx context.Context, row Row, to string) (Passage, error) {
	from := g.from[to]
	if len(from) == 0 {
		return 0, fmt.Errorf("consumer: Guard has no move to %q", to)
	}
	for range guardTries {
		moved, err := row.Move(ctx, to, slices.Clone(from))
		if err != nil {
			return 0, fmt.Errorf("consumer: move to %q: %w", to, err)
		}
		if moved {
			return Moved, nil
		}
		state, found, err := row.State(ctx)
		switch {
		case err != nil:
			return 0, fmt.Errorf("consumer: read state: %w", err)
		case !found:
			return Missing, nil
		case g.after[state] == nil:
			return 0, fmt.Errorf("consumer: Guard has no state %q", state)
		case !slices.Contains(from, state):
			return g.classify(state, to), nil
		}
		// Someone else has just brought the row to a state that the move may start from.
	}
	return Early, nil
}

func (g *Guard) classify(state, to string) Passage {
	switch {
	case state == to:
		return Duplicate
	case g.after[to][state]:
		return Stale
	case g.after[state][to]:
		return Early
	default:
		return Excluded
	}
}

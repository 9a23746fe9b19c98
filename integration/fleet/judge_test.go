package fleet

import (
	"bytes"
	"cmp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// event is a business row: what its message must say. Versions of a key are 1, 2, 3 … over what was committed.
type event struct {
	ID      string
	Key     string
	Version int64
	Body    []byte
}

// row is what a table says of a message.
type row struct {
	ID       string
	Attempts int
	Errors   int
	Foreign  bool // an error of another class than refused
}

const rowSQL = ` id, attempts, coalesce(jsonb_array_length(errors), 0), coalesce(errors @? '$[*] ? (@.class != "refused")', false) FROM `

// evidence is all there is to judge by.
type evidence struct {
	seed      uint64
	committed map[string]event
	held      []row // that wait for a person
	archived  []row
	records   []record
	refused   map[string]int
	passed    map[string]bool
}

// outcome is what may differ from run to run.
type outcome struct {
	committed, delivered, dead int
	deadDelivered              int // given to the broker, not settled, and refused from then on
	duplicates                 int
}

func readTables(t *testing.T, pool *pgxpool.Pool, e *evidence) {
	t.Helper()
	events, err := collect(t, pool, "SELECT id, key, version, body FROM event", pgx.RowToStructByPos[event])
	require.NoError(t, err)
	e.committed = make(map[string]event, len(events))
	for _, event := range events {
		e.committed[event.ID] = event
	}
	ready, err := collect(t, pool, "SELECT"+rowSQL+"txmsg_ready", pgx.RowToStructByPos[row])
	require.NoError(t, err)
	require.Empty(t, ready, "rows that are ready although all was sent")
	e.held, err = collect(t, pool, "SELECT"+rowSQL+"txmsg_held", pgx.RowToStructByPos[row])
	require.NoError(t, err)
	e.archived, err = collect(t, pool, "SELECT"+rowSQL+"txmsg_delivered", pgx.RowToStructByPos[row])
	require.NoError(t, err)
}

func collect[T any](t *testing.T, pool *pgxpool.Pool, sql string, to pgx.RowToFunc[T]) ([]T, error) {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	require.NoError(t, err)
	return pgx.CollectRows(rows, to)
}

func (e *evidence) judge(t *testing.T) outcome {
	t.Helper()
	dead := e.requireDead(t)
	e.requireArchived(t, dead)
	v := outcome{committed: len(e.committed), dead: len(dead)}
	first, partitions := map[string]bool{}, map[string]int32{}
	order := map[string][]int64{}
	for _, r := range e.records {
		event, ok := e.committed[r.ID]
		require.True(t, ok, "ghost: message %s of key %s, version %d, was not committed", r.ID, r.Key, r.Version)
		require.True(t, event.Key == r.Key && event.Version == r.Version && bytes.Equal(event.Body, r.Body), "message %s is not what was written", r.ID)
		partition, known := partitions[r.Key]
		require.True(t, !known || partition == r.partition, "key %s is in two partitions", r.Key)
		partitions[r.Key] = r.partition
		switch {
		case first[r.ID]:
			v.duplicates++
			continue
		case !dead[r.ID]:
			order[r.Key] = append(order[r.Key], r.Version)
			v.delivered++
		default: // its order is no longer anybody's concern
			require.True(t, e.passed[r.ID], "message %s is dead, no relay gave it to the broker, and the broker has it", r.ID)
			v.deadDelivered++
		}
		first[r.ID] = true
	}
	for key, want := range e.expected(dead) {
		require.Equal(t, want, order[key], "versions of key %s in the order of their first copies", key)
	}
	require.Equal(t, v.committed-v.dead, v.delivered, "messages that were delivered")
	return v
}

// requireDead requires that exactly those messages are dead whose attempts ran out, and returns them.
func (e *evidence) requireDead(t *testing.T) map[string]bool {
	t.Helper()
	dead := map[string]bool{}
	for _, r := range e.held {
		e.requireCommitted(t, r)
		require.Equal(t, maxAttempts, r.Attempts, "attempts of dead message %s", r.ID)
		require.Equal(t, maxAttempts, r.Errors, "errors of dead message %s", r.ID)
		e.requireSpent(t, r)
		require.False(t, dead[r.ID], "dead message %s has two rows", r.ID)
		dead[r.ID] = true
	}
	for id := range e.committed {
		require.True(t, dead[id] || verdictOf(e.seed, id) != refusedAlways, "message %s is refused every time and not dead", id)
	}
	return dead
}

// requireArchived requires that all the others are noted as delivered, once.
func (e *evidence) requireArchived(t *testing.T, dead map[string]bool) {
	t.Helper()
	archived := map[string]bool{}
	for _, r := range e.archived {
		e.requireCommitted(t, r)
		require.False(t, dead[r.ID], "dead message %s is in the archive", r.ID)
		require.False(t, archived[r.ID], "message %s is in the archive twice", r.ID)
		require.Less(t, r.Attempts, maxAttempts, "attempts of message %s", r.ID)
		require.Equal(t, r.Attempts, r.Errors, "errors of message %s", r.ID)
		e.requireSpent(t, r)
		archived[r.ID] = true
	}
	require.Len(t, archived, len(e.committed)-len(dead), "messages in the archive")
}

func (e *evidence) requireCommitted(t *testing.T, r row) {
	t.Helper()
	_, ok := e.committed[r.ID]
	require.True(t, ok, "message %s was not committed, and has a row", r.ID)
}

// requireSpent requires that each attempt was spent by a refusal.
func (e *evidence) requireSpent(t *testing.T, r row) {
	t.Helper()
	require.False(t, r.Foreign, "message %s spent an attempt without a refusal", r.ID)
	require.LessOrEqual(t, r.Attempts, e.refused[r.ID], "message %s spent more attempts than it was refused", r.ID)
	require.True(t, r.Attempts == 0 || verdictOf(e.seed, r.ID) != accepted, "message %s was refused by nobody", r.ID)
}

// expected are the versions of each key that must be there, in their order.
func (e *evidence) expected(dead map[string]bool) map[string][]int64 {
	byKey := map[string][]int64{}
	for id, event := range e.committed {
		if !dead[id] {
			byKey[event.Key] = append(byKey[event.Key], event.Version)
		}
	}
	for _, versions := range byKey {
		slices.SortFunc(versions, cmp.Compare[int64])
	}
	return byKey
}

package localtable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func TestQueueSetsAside(t *testing.T) {
	row := func(id, key, topic string) Row {
		return Row{Message: txmsg.Message{ID: id, Key: key, Topic: topic}}
	}
	delayed := func(row Row) Row {
		row.Delayed = true
		return row
	}
	ids := func(rows []Row) (list []string) {
		for _, row := range rows {
			list = append(list, row.Message.ID)
		}
		return list
	}
	resting := pass{resting: map[string]time.Time{"rests": time.Now()}}
	probing := pass{resting: resting.resting, probe: true}

	for _, test := range []struct {
		name                  string
		pass                  pass
		rows                  []Row
		sent, skipped, behind []string
	}{
		{
			"the first row of a key, with what follows it", resting,
			[]Row{row("a", "k", "rests"), row("b", "k", "fine"), row("c", "k", "rests"), row("d", "other", "fine")},
			[]string{"d"},
			[]string{"a"},
			[]string{"b", "c"},
		},
		{
			"no row behind one that is sent: it would be in retry while that one is ready or parked", resting,
			[]Row{row("a", "k", "fine"), row("b", "k", "rests"), row("c", "k", "fine"), row("d", "k", "rests")},
			[]string{"a"},
			nil, nil,
		},
		{
			"no row behind a probe of its key", probing,
			[]Row{
				row("1", "", "rests"), row("2", "", "rests"), row("3", "", "rests"), row("4", "", "rests"),
				row("5", "", "rests"), row("6", "", "rests"), row("a", "k", "rests"), row("b", "k", "rests"), row("c", "k", "rests"),
				row("d", "k", "fine"), row("e", "other", "rests"), row("f", "other", "fine"),
			},
			[]string{"1", "2", "3", "4", "5", "6", "a", "b"},
			[]string{"e"},
			[]string{"f"},
		},
		{
			"a delayed row, which nothing waits for", resting,
			[]Row{row("a", "k", "fine"), delayed(row("b", "k", "rests")), row("c", "k", "fine"), delayed(row("d", "k", "fine"))},
			[]string{"a", "c", "d"},
			[]string{"b"},
			nil,
		},
		{
			"a row behind one that is delayed", resting,
			[]Row{delayed(row("a", "k", "fine")), row("b", "k", "rests"), row("c", "k", "fine"), delayed(row("d", "k", "fine"))},
			[]string{"a", "d"},
			[]string{"b"},
			[]string{"c"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			q, followers := newQueue(test.rows, &selector{pass: test.pass, sent: map[string]int{}})
			require.Empty(t, followers)
			require.Equal(t, test.skipped, ids(q.skipped))
			require.Equal(t, test.behind, ids(q.behind))
			var sent []string
			for {
				rows, _ := q.next(map[int]bool{0: true}, nil)
				if len(rows) == 0 {
					break
				}
				for _, row := range rows {
					sent = append(sent, row.Message.ID)
				}
			}
			require.ElementsMatch(t, test.sent, sent)
		})
	}
}

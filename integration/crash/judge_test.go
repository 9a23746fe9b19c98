package crash

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// judge requires that what a topic holds is what was committed: every message, whole, under its one ID, no other, and,
// where the backend keeps order, the first copies of each key in the order in which its aggregate changed. It returns how many
// copies there are beyond the first.
func judge(t *testing.T, committed []event, delivered []txmsg.Delivery, ordered bool) (duplicates int) {
	t.Helper()
	expected := make(map[string]event, len(committed))
	for _, e := range committed {
		expected[e.ID] = e
	}
	first := map[string]bool{}
	versions := map[string]int64{}
	for _, d := range delivered {
		m := d.Message
		e, ok := expected[m.ID]
		require.True(t, ok, "ghost: message %s of key %s, version %d, has no committed row", m.ID, m.Key, m.Sequence)
		requireWhole(t, e, d)
		if first[m.ID] {
			duplicates++
			continue
		}
		first[m.ID] = true
		if ordered {
			require.Equal(t, versions[m.Key]+1, m.Sequence, "order of key %s", m.Key)
			versions[m.Key] = m.Sequence
		}
	}
	for _, e := range committed {
		require.True(t, first[e.ID], "lost: message %s of key %s, version %d, was committed and not delivered", e.ID, e.Key, e.Version)
	}
	return duplicates
}

func requireWhole(t *testing.T, e event, d txmsg.Delivery) {
	t.Helper()
	m := d.Message
	require.NoError(t, d.Malformed, "message %s", e.ID)
	require.Equal(t, e.Key, m.Key, "key of message %s", e.ID)
	require.Equal(t, e.Version, m.Sequence, "sequence of message %s", e.ID)
	require.Equal(t, "aggregate.changed", m.Type, "type of message %s", e.ID)
	require.Equal(t, map[string]string{"Version": strconv.FormatInt(e.Version, 10)}, m.Headers, "headers of message %s", e.ID)
	require.True(t, bytes.Equal(e.Body, m.Body), "body of message %s", e.ID)
}

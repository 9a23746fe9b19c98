package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func statusTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"counts every state of every destination", statusCounts[Tx]},
		{"the oldest unsent row is one that is due", statusOldest[Tx]},
		{"destinations are those with rows that a relay must send", statusDestinations[Tx]},
	}
}

func statusCounts[Tx any](t *testing.T, b *bench[Tx]) {
	lanes := b.all()
	require.Equal(t, localtable.Status{}, b.status())
	stuck(b, lanes, "k1", 2, "retry", "parked1", "parked2")
	b.write(keyed("k2", "dead")...)
	b.settle(1, settlement(lanes, died(b.row(b.read(lanes, most), "dead"))))
	b.write(txmsg.Message{ID: "waiting", Topic: "t", Body: []byte("x"), Delay: time.Hour})
	b.write(keyed("k3", "ready1", "ready2")...)
	b.writeTo("elsewhere", keyed("k3", "ready3")...)
	require.Equal(t, localtable.Status{Ready: 3, Waiting: 1, Retry: 1, Parked: 2, Dead: 1}, b.status())
}

func statusDestinations[Tx any](t *testing.T, b *bench[Tx]) {
	destinations := func() []string {
		status, err := b.Store.Status(b.ctx)
		require.NoError(t, err)
		return status.Destinations
	}
	lanes := b.all()
	require.Empty(t, destinations())
	stuck(b, lanes, "k1", 1, "retry", "parked")
	require.Equal(t, []string{destination}, destinations())
	b.settle(1, settlement(lanes, died(b.row(b.due(lanes, "retry"), "retry"))))
	require.Empty(t, destinations(), "a person must decide what becomes of dead rows and of those behind them")

	for _, name := range []string{"a-b", "B", "a.b", "a"} {
		b.writeTo(name, plain(name, 2)...)
	}
	b.writeTo("later", txmsg.Message{ID: "waiting", Topic: "t", Body: []byte("x"), Delay: time.Hour})
	b.writeTo("a", txmsg.Message{ID: "waiting2", Topic: "t", Body: []byte("x"), Delay: time.Hour})
	require.Equal(t, []string{"B", "a", "a-b", "a.b", "later"}, destinations())
}

func statusOldest[Tx any](t *testing.T, b *bench[Tx]) {
	oldest := func() time.Duration {
		status, err := b.Store.Status(b.ctx)
		require.NoError(t, err)
		return status.OldestUnsent
	}
	lanes := b.all()
	require.Zero(t, oldest())
	b.write(keyed("k1", "a")...)
	b.Age(t, "a", time.Hour)
	require.GreaterOrEqual(t, oldest(), time.Hour)
	require.Less(t, oldest(), 2*time.Hour)

	b.settle(1, settlement(lanes, delivered(b.read(lanes, most)...)...))
	require.Zero(t, oldest(), "what is delivered is sent")
	b.write(txmsg.Message{ID: "waiting", Topic: "t", Body: []byte("x"), Delay: 96 * time.Hour})
	b.Age(t, "waiting", 48*time.Hour)
	require.Zero(t, oldest(), "what waits for its time is not late")
}

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestPersonCases(t *testing.T) {
	t.Parallel()
	server, address := services.Postgres(t), services.Kafka(t)
	test := beside(t, func(t *testing.T) *counter { return newCounter(t, server, address) })
	test("C44 C46 a body is the same at the consumer after its message was dead and retried", testBytesOfTheDead)
	test("C58 a message that is retried twice comes as it was, and the audit names who did it", testRetriedTwice)
	test("skip lets go on in order what waited", func(t *testing.T, c *counter) { testDecidedHead(t, c, (*localtable.Operator).Skip, 0) })
	test("release lets go on in order what waited", func(t *testing.T, c *counter) { testDecidedHead(t, c, (*localtable.Operator).Release, 1) })
}

func (s *shop) operator(t *testing.T) *localtable.Operator {
	t.Helper()
	operator, err := localtable.NewOperator(s.store(t), localtable.OperatorConfig{Logger: s.log.logger()})
	require.NoError(t, err)
	return operator
}

// die refuses messages for good so many times each, then passes them on.
func die(times int) func(localtable.Broker) localtable.Broker {
	return pick(func(m txmsg.Message, time int) error {
		if time <= times {
			return fmt.Errorf("no %s: %w", m.ID, txmsg.ErrTooLarge)
		}
		return nil
	})
}

func (s *shop) awaitDead(t *testing.T, n int64) {
	t.Helper()
	eventually(t, func() bool { return s.status(t).Dead == n }, fmt.Sprint(n, " dead messages"))
}

// collect returns a handler, and what it gets.
func collect() (consumer.Handler[pgx.Tx], chan txmsg.Message) {
	got := make(chan txmsg.Message, 100)
	return func(_ context.Context, _ pgx.Tx, msg txmsg.Message, _ txmsg.Publisher) error {
		got <- msg.Clone()
		return nil
	}, got
}

func receive(t *testing.T, from <-chan txmsg.Message) (msg txmsg.Message) {
	t.Helper()
	select {
	case msg = <-from:
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for the handler to get a message")
	}
	return msg
}

func testBytesOfTheDead(t *testing.T, c *counter) {
	wanted := map[string]txmsg.Message{}
	var msgs []txmsg.Message
	for _, body := range []string{
		`{"id":9007199254740993,"x":1.10}`, `{"a":"x\u0000y"}`, `{"a":"\\u0000"}`, "", "\x00\xff\n", "\"ü\" \u2028",
	} {
		m := c.order("k1", body)
		wanted[m.ID], msgs = m, append(msgs, m)
	}
	handler, got := collect()
	n := c.node(t, handler, consumer.Config{}, die(1))
	run(t, n.messenger)
	run(t, n.consumer)
	for i, m := range msgs {
		c.commit(t, n.messenger, m)
		c.awaitDead(t, 1)
		report, err := c.operator(t).Retry(t.Context(), localtable.Reason{Who: "ann", Why: "limit raised"}, localtable.Filter{Topic: c.topic}, localtable.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, localtable.RetryReport{Matched: 1, Retried: 1}, report)
		msg := receive(t, got)
		require.Equal(t, msgs[i].Body, msg.Body)
		require.True(t, wanted[msg.ID].Equal(msg), "%+v", msg)
		c.awaitDrained(t)
	}
}

func testRetriedTwice(t *testing.T, c *counter) {
	handler, got := collect()
	n := c.node(t, handler, consumer.Config{}, die(2))
	run(t, n.messenger)
	run(t, n.consumer)
	msg := c.order("k1", `{"amount":1.10}`)
	msg.Sequence, msg.Headers = 7, map[string]string{"tenant": "t1", "Case": "Kept", "note": "ü 9007199254740993"}
	c.commit(t, n.messenger, msg)
	operator := c.operator(t)
	for _, who := range []string{"ann", "bob"} {
		c.awaitDead(t, 1)
		report, err := operator.Retry(t.Context(), localtable.Reason{Who: who, Why: "limit raised"},
			localtable.Filter{States: []localtable.State{localtable.StateDead}, IDs: []string{msg.ID}}, localtable.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, 1, report.Retried)
	}
	require.True(t, msg.Equal(receive(t, got)), "every field is kept")
	c.awaitDrained(t)
	entries, err := operator.Audit(t.Context(), localtable.AuditFilter{ID: msg.ID}, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for i, who := range []string{"ann", "bob"} {
		require.Equal(t, who, entries[i].Who)
		require.Equal(t, c.topic, entries[i].Message.Topic)
		require.Equal(t, "k1", entries[i].Message.Key)
	}
}

type decide func(o *localtable.Operator, ctx context.Context, reason localtable.Reason, refs ...localtable.Ref) error

func testDecidedHead(t *testing.T, c *counter, verb decide, dead int64) {
	msgs := make([]txmsg.Message, 20)
	for i := range msgs {
		msgs[i] = c.order("k1", fmt.Sprint(i))
	}
	m := c.messenger(t, localtable.Config{}, pick(func(m txmsg.Message, _ int) error {
		if m.ID == msgs[0].ID {
			return fmt.Errorf("no: %w", txmsg.ErrTooLarge)
		}
		return nil
	}))
	run(t, m)
	c.commit(t, m, msgs...)
	eventually(t, func() bool { return c.status(t).Parked == 19 }, "the others to be parked")
	operator := c.operator(t)
	rows, err := operator.Find(t.Context(), localtable.Filter{States: []localtable.State{localtable.StateDead}}, 0, 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Empty(t, c.read(t))

	require.NoError(t, verb(operator, t.Context(), localtable.Reason{Who: "ann", Why: "it is void"}, rows[0].Ref()))
	var want []string
	for _, msg := range msgs[1:] {
		want = append(want, string(msg.Body))
	}
	require.Equal(t, want, firstCopies(c.awaitDelivered(t, msgs[0].ID), "k1"))
	require.Equal(t, dead, c.status(t).Dead)
	var decided *localtable.DecidedError
	require.ErrorAs(t, verb(operator, t.Context(), localtable.Reason{Who: "ann", Why: "twice"}, rows[0].Ref()), &decided)
}

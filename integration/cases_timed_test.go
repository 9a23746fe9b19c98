package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/broker/nats"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Cases with a bound in seconds run one after the other, and before the tests that run beside each other.
func TestTimedCases(t *testing.T) {
	t.Run("C25 one unsendable row costs its attempts and nothing else", testUnsendable)
	t.Run("C62 PublishTimeout bounds a call that is not answered, Kafka", testKafkaTimeout)
	t.Run("C62 PublishTimeout bounds a call that is not answered, NATS", testNATSTimeout)
	t.Run("C67 two hundred thousand rows of a stuck key do not hold up the others", testStuckKey)
}

// requireWithin measures up to three times, until it takes less than most, and returns how often it did: once too late may be
// the machine's doing, and three times is the library's.
func requireWithin(t *testing.T, most time.Duration, what string, measure func() time.Duration) (rounds int) {
	t.Helper()
	var all []time.Duration
	for range 3 {
		took := measure()
		all = append(all, took)
		if took < most {
			return len(all)
		}
	}
	require.FailNow(t, "too late", "%s took %v, and may take %s", what, all, most)
	return 0
}

// requireTimeouts has brokers with time-outs of 1 s and 7 s publish to a server, then to one that no longer answers.
func requireTimeouts(t *testing.T, name string, open func(timeout time.Duration) localtable.Broker, proxy *services.Proxy) {
	t.Helper()
	const tolerance = 500 * time.Millisecond
	timeouts := []time.Duration{time.Second, 7 * time.Second}
	requireWithin(t, tolerance, "what is more than the time-outs", func() (late time.Duration) {
		brokers := make([]localtable.Broker, len(timeouts))
		publish := func(i int) error {
			return brokers[i].Publish(context.Background(), []txmsg.Message{{ID: txmsg.NewID(), Topic: name, Key: "key", Body: []byte("body")}})[0]
		}
		for i, timeout := range timeouts {
			brokers[i] = open(timeout)
			t.Cleanup(func() { _ = brokers[i].Close() })
			eventually(t, func() bool { return publish(i) == nil }, "the server to answer") // a cold one takes longer than a second
		}
		proxy.SwallowReplies()
		defer proxy.Restore()
		errs, took := make([]error, len(timeouts)), make([]time.Duration, len(timeouts))
		var all sync.WaitGroup
		for i := range timeouts {
			all.Go(func() {
				begin := time.Now()
				errs[i] = publish(i)
				took[i] = time.Since(begin)
			})
		}
		all.Wait()
		for i, timeout := range timeouts {
			require.ErrorIs(t, errs[i], txmsg.ErrOutage)
			require.Greater(t, took[i], timeout-tolerance, "time of a call with a time-out of %s", timeout)
			late = max(late, took[i]-timeout)
		}
		return late
	})
}

func testKafkaTimeout(t *testing.T) {
	server, proxy := services.StartKafkaProxied(t, nil)
	requireTimeouts(t, topic.Kafka(server.Address()).Create(t), func(timeout time.Duration) localtable.Broker {
		broker, err := kafka.Open(t.Context(), kafka.Config{Brokers: []string{server.Address()}, PublishTimeout: timeout})
		require.NoError(t, err)
		return broker
	}, proxy)
}

func testNATSTimeout(t *testing.T) {
	url := services.NATS(t)
	proxy := services.NewProxy(t, url)
	requireTimeouts(t, topic.NATS(url).Create(t), func(timeout time.Duration) localtable.Broker {
		broker, err := nats.Open(t.Context(), nats.Config{URLs: []string{proxy.Replace(url)}, PublishTimeout: timeout})
		require.NoError(t, err)
		return broker
	}, proxy)
}

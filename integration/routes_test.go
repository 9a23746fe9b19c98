package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// divided makes topics in Kafka and in NATS, in turn; their names tell where.
type divided struct {
	kafka, nats topic.Broker
	made        atomic.Int64
}

func (d *divided) of(name string) topic.Broker {
	if strings.HasPrefix(name, "kafka-") {
		return d.kafka
	}
	return d.nats
}

func (d *divided) Create(t testing.TB) string {
	name := []string{"kafka-", "nats-"}[d.made.Add(1)%2] + txmsg.NewID()
	d.CreateNamed(t, name)
	return name
}

func (d *divided) CreateNamed(t testing.TB, name string) { d.of(name).CreateNamed(t, name) }

func (d *divided) Read(t testing.TB, name string) []txmsg.Delivery { return d.of(name).Read(t, name) }

func (d *divided) Follow(ctx context.Context, t testing.TB, name string) <-chan txmsg.Delivery {
	return d.of(name).Follow(ctx, t, name)
}

// onBoth is one table with two destinations.
func onBoth(t testing.TB) transport {
	kafka, nats := onKafka(t), onNATS(t)
	return transport{Broker: &divided{kafka: kafka, nats: nats}, routes: func(t testing.TB) []localtable.Route {
		return []localtable.Route{
			{Destination: "streams", Topics: []string{"nats-*"}, Broker: nats.open(t)},
			{Destination: "log", Topics: []string{"*"}, Broker: kafka.open(t)},
		}
	}}
}

// fork is a shop whose messages go to a topic in Kafka, and to one in NATS by way of a proxy.
type fork struct {
	*shop  // its topic is the one in Kafka
	stream string
	nats   transport // without the proxy
	proxy  *services.Proxy
	far    transport // with it
}

func newFork(t *testing.T) *fork {
	t.Helper()
	url := services.NATS(t)
	proxy := services.NewProxy(t, url)
	nats := natsAt(url)
	return &fork{
		shop: newShop(t, services.Postgres(t), onKafka(t)), stream: nats.Create(t), nats: nats, proxy: proxy, far: natsAt(proxy.Replace(url)),
	}
}

// messenger is one process's.
func (f *fork) messenger(t *testing.T) *messenger {
	t.Helper()
	routes := []localtable.Route{
		{Destination: "log", Topics: []string{f.topic}, Broker: f.broker.open(t)},
		{Destination: "stream", Topics: []string{f.stream}, Broker: f.far.open(t)},
	}
	for _, route := range routes {
		t.Cleanup(func() { _ = route.Broker.Close() }) // of a messenger that nobody runs
	}
	m, err := localtable.NewRouted(f.store(t), routes, localtable.Config{LeaseTTL: 3 * time.Second, Logger: f.log.logger()})
	require.NoError(t, err)
	return m
}

// write commits messages for both destinations, with numbers from and to as bodies, and ten keys.
func (f *fork) write(t *testing.T, m *messenger, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		for key := range 10 {
			msgs := []txmsg.Message{f.order(fmt.Sprint("key-", key), strconv.Itoa(n)), f.order(fmt.Sprint("key-", key), strconv.Itoa(n))}
			msgs[1].Topic = f.stream
			f.commit(t, m, msgs...)
		}
	}
}

// awaitLog waits until the topic in Kafka has every message up to n, and requires their order.
func (f *fork) awaitLog(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool { return len(copies(f.read(t))) == 10*n }, "the messages in Kafka")
	requireCounted(t, f.read(t))
}

// awaitStream is awaitLog for NATS.
func (f *fork) awaitStream(t *testing.T, n int) {
	t.Helper()
	read := func() (all []txmsg.Message) {
		for _, d := range f.nats.Read(t, f.stream) {
			all = append(all, d.Message)
		}
		return all
	}
	eventually(t, func() bool { return len(copies(read())) == 10*n }, "the messages in NATS")
	requireCounted(t, read())
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(p *services.Proxy){
		"is cut off":      (*services.Proxy).Cut,
		"does not answer": (*services.Proxy).SwallowReplies,
	} {
		t.Run("a broker that "+name+" delays no other destination, while relays come and go", func(t *testing.T) {
			t.Parallel()
			f := newFork(t)
			first, second := f.messenger(t), f.messenger(t)
			stop := run(t, first)
			f.write(t, first, 1, 3)
			f.awaitLog(t, 3)
			f.awaitStream(t, 3)

			harm(f.proxy)
			f.write(t, first, 4, 6)
			f.awaitLog(t, 6)
			eventually(t, func() bool { return !first.Health().Destinations[1].OutageSince.IsZero() }, "the outage to be seen")
			require.Zero(t, first.Health().Destinations[0].OutageSince)

			run(t, second)
			eventually(t, func() bool { return first.Health().Lanes == 32 && second.Health().Lanes == 32 }, "the lanes to be shared")
			f.write(t, second, 7, 9)
			f.awaitLog(t, 9)
			stop()
			eventually(t, func() bool { return second.Health().Lanes == 64 }, "the lanes to be taken over")
			f.write(t, second, 10, 12)
			f.awaitLog(t, 12)
			require.Equal(t, int64(9*10), f.status(t).Ready, "an outage changes no row")

			f.proxy.Restore()
			f.awaitDrained(t)
			f.awaitStream(t, 12)
			require.Zero(t, f.spent(t), "messages that an outage cost an attempt")
		})
	}

	t.Run("a service starts while one broker is away", func(t *testing.T) {
		t.Parallel()
		f := newFork(t)
		f.proxy.Cut()
		m := f.messenger(t)
		run(t, m)
		f.write(t, m, 1, 3)
		f.awaitLog(t, 3)
		eventually(t, func() bool { return !m.Health().Destinations[1].OutageSince.IsZero() }, "the outage to be seen")
		f.proxy.Restore()
		f.awaitDrained(t)
		f.awaitStream(t, 3)
		eventually(t, func() bool { return m.Health().Destinations[1].OutageSince.IsZero() }, "the end of the outage to be seen")
	})

	t.Run("C61 a topic that one broker lacks stops the start", func(t *testing.T) {
		t.Parallel()
		f := newFork(t)
		f.stream = "missing-" + txmsg.NewID()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := f.messenger(t).Run(ctx)
		require.ErrorIs(t, err, txmsg.ErrNoRoute)
		require.ErrorContains(t, err, "destination stream")
		require.ErrorContains(t, err, f.stream)
	})
}

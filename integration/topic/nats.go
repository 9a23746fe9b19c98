package topic

import (
	"context"
	"strings"
	"testing"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Window is the time in which a topic in NATS stores no second copy of an ID: as short as the server allows, so
// that a reader sees the copies.
const Window = 100 * time.Millisecond

type nats struct{ url string }

// NATS makes and reads topics of the NATS server at url: a topic is a stream with one subject.
func NATS(url string) Broker { return nats{url} }

func (n nats) Create(t testing.TB) string {
	t.Helper()
	name := newName()
	n.CreateNamed(t, name)
	return name
}

func (n nats) CreateNamed(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	js, done := n.connect(t)
	defer done()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream(name), Subjects: []string{name}, Duplicates: Window})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := natsclient.Connect(n.url)
		if err != nil {
			return // the server is gone
		}
		defer conn.Close()
		if js, err := jetstream.New(conn); err == nil {
			_ = js.DeleteStream(ctx, stream(name))
		}
	})
}

func (n nats) Read(t testing.TB, name string) []txmsg.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	js, done := n.connect(t)
	defer done()
	info, err := js.Stream(ctx, stream(name))
	require.NoError(t, err)
	last := info.CachedInfo().State.LastSeq
	var all []txmsg.Delivery
	if last == 0 {
		return nil
	}
	messages := n.messages(ctx, t, js, name)
	defer messages.Stop()
	for {
		msg, err := messages.Next()
		require.NoError(t, err, "read topic %s", name)
		delivery := fromMsg(t, msg, name)
		all = append(all, delivery)
		if delivery.Source.Offset == int64(last) {
			return all
		}
		require.NoError(t, ctx.Err(), "read topic %s", name)
	}
}

func (n nats) Follow(ctx context.Context, t testing.TB, name string) <-chan txmsg.Delivery {
	t.Helper()
	js, done := n.connect(t)
	messages := n.messages(ctx, t, js, name)
	out := make(chan txmsg.Delivery)
	stop := context.AfterFunc(ctx, messages.Stop)
	go func() {
		defer close(out)
		defer done()
		defer stop()
		for ctx.Err() == nil {
			msg, err := messages.Next()
			if err != nil {
				continue // ctx has ended, or the server is away
			}
			select {
			case out <- fromMsg(t, msg, name):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func (n nats) messages(ctx context.Context, t testing.TB, js jetstream.JetStream, name string) jetstream.MessagesContext {
	t.Helper()
	consumer, err := js.OrderedConsumer(ctx, stream(name), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	require.NoError(t, err)
	messages, err := consumer.Messages()
	require.NoError(t, err)
	return messages
}

func (n nats) connect(t testing.TB) (js jetstream.JetStream, done func()) {
	t.Helper()
	conn, err := natsclient.Connect(n.url)
	require.NoError(t, err)
	js, err = jetstream.New(conn)
	require.NoError(t, err)
	return js, conn.Close
}

// stream is the name of a topic's stream, which must not have dots.
func stream(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

func fromMsg(t testing.TB, msg jetstream.Msg, name string) txmsg.Delivery {
	headers := map[string]string{}
	for name, values := range msg.Headers() {
		headers[name] = strings.Join(values, ",")
	}
	m, malformed := txmsg.FromWire(msg.Subject(), msg.Data(), headers, "")
	source := txmsg.Source{Broker: "nats", Topic: msg.Subject(), Partition: stream(name)}
	metadata, err := msg.Metadata()
	if err != nil {
		t.Errorf("message on %s: %v", name, err)
		return txmsg.Delivery{Message: m, Source: source, Malformed: err}
	}
	source.Offset = int64(metadata.Sequence.Stream)
	return txmsg.Delivery{Message: m, Source: source, Malformed: malformed}
}

package topic

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Partitions of a topic in Kafka.
const Partitions = 3

type kafka struct{ address string }

// Kafka makes and reads topics of the Kafka server at address.
func Kafka(address string) Broker { return kafka{address} }

func (k kafka) Create(t testing.TB) string {
	t.Helper()
	name := newName()
	k.CreateNamed(t, name)
	return name
}

func (k kafka) CreateNamed(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client := k.client(t)
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err := admin.CreateTopic(ctx, Partitions, 1, nil, name)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		topics, err := admin.ListTopics(ctx, name)
		return err == nil && topics.Has(name) && len(topics[name].Partitions) == Partitions && topics.Error() == nil
	}, timeout, 20*time.Millisecond, "topic %s is not there", name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		client := k.client(t)
		defer client.Close()
		_, _ = kadm.NewClient(client).DeleteTopic(ctx, name) // the server may be gone
	})
}

func (k kafka) Read(t testing.TB, name string) []txmsg.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client := k.reader(t, name)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, name)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	left := int64(0)
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	var all []txmsg.Delivery
	for int64(len(all)) < left {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "read topic %s", name)
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, fromRecord(r)) })
	}
	return all
}

func (k kafka) Follow(ctx context.Context, t testing.TB, name string) <-chan txmsg.Delivery {
	t.Helper()
	client := k.reader(t, name)
	out := make(chan txmsg.Delivery)
	go func() {
		defer close(out)
		defer client.Close()
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				select {
				case out <- fromRecord(r):
				case <-ctx.Done():
				}
			})
		}
	}()
	return out
}

func (k kafka) reader(t testing.TB, name string) *kgo.Client {
	t.Helper()
	return k.client(t, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
}

func (k kafka) client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(k.address))...)
	require.NoError(t, err)
	return client
}

func fromRecord(r *kgo.Record) txmsg.Delivery {
	headers := make(map[string]string, len(r.Headers))
	for _, header := range r.Headers {
		headers[header.Key] = string(header.Value)
	}
	m, malformed := txmsg.FromWire(r.Topic, r.Value, headers, "")
	switch {
	case malformed != nil:
	case r.Value == nil:
		malformed = fmt.Errorf("value is null, which deletes the key in a compacted topic")
	case string(r.Key) != m.Key:
		malformed = fmt.Errorf("record's key is %q, the message's %q", r.Key, m.Key)
	}
	source := txmsg.Source{Broker: "kafka", Topic: r.Topic, Partition: strconv.Itoa(int(r.Partition)), Offset: r.Offset}
	return txmsg.Delivery{Message: m, Source: source, Malformed: malformed}
}

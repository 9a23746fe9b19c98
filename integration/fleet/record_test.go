package fleet

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// record is what the topic holds, as anybody reads it: the library's code has no part in it.
type record struct {
	event
	partition int32
}

// readTopic returns all records of a topic, in the order of each partition.
func readTopic(t *testing.T, address, name string) (all []record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().At(0)), kgo.FetchMaxWait(500*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, name)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	left := int64(0)
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	for int64(len(all)) < left {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, plain(t, r)) })
	}
	return all
}

func plain(t *testing.T, r *kgo.Record) record {
	t.Helper()
	headers := map[string]string{}
	for _, header := range r.Headers {
		headers[header.Key] = string(header.Value)
	}
	version, err := strconv.ParseInt(headers["txmsg-sequence"], 10, 64)
	require.NoError(t, err, "offset %d of partition %d", r.Offset, r.Partition)
	return record{event{ID: headers["txmsg-id"], Key: string(r.Key), Version: version, Body: r.Value}, r.Partition}
}

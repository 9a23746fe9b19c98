package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Missing returns those of topics that Kafka says do not exist. A topic that it will not tell about, for want of the right
// to describe it, is an outage with that reason.
func (b *Broker) Missing(ctx context.Context, topics []string) ([]string, error) {
	p, err := b.acquire()
	if err != nil {
		return nil, outage(err)
	}
	defer b.release(p, false)
	ctx, cancel := b.bounded(ctx)
	defer cancel()
	missing, err := missingTopics(ctx, p.client, topics)
	if err != nil {
		return nil, outage(err)
	}
	return missing, nil
}

// missingTopics asks without creating, whatever the server's setting for it.
func missingTopics(ctx context.Context, client *kgo.Client, topics []string) ([]string, error) {
	if len(topics) == 0 { // to Kafka, an empty list means all topics
		return nil, nil
	}
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = false
	for _, topic := range topics {
		entry := kmsg.NewMetadataRequestTopic()
		entry.Topic = kmsg.StringPtr(topic)
		request.Topics = append(request.Topics, entry)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	known := map[string]error{}
	for _, entry := range response.Topics {
		if entry.Topic != nil {
			known[*entry.Topic] = kerr.ErrorForCode(entry.ErrorCode)
		}
	}
	var missing []string
	for _, topic := range topics {
		err, answered := known[topic]
		switch {
		case !answered:
			return nil, fmt.Errorf("no answer about topic %q", topic)
		case is(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException):
			missing = append(missing, topic)
		case is(err, kerr.TopicAuthorizationFailed):
			return nil, fmt.Errorf("topic %q: %w", topic, err)
		}
	}
	return missing, nil
}

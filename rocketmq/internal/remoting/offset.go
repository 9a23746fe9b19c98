package remoting

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// StoreOffsets makes each offset the group's in its queue, and returns nil when the brokers have confirmed all of them.
func StoreOffsets(
	ctx context.Context, nameServers []string, credentials primitive.Credentials, group string, offsets map[primitive.MessageQueue]int64,
) error {
	if len(offsets) == 0 {
		return nil
	}
	addresses, err := masters(ctx, nameServers)
	if err != nil {
		return err
	}
	brokers := map[string]map[primitive.MessageQueue]int64{}
	for queue, offset := range offsets {
		if brokers[queue.BrokerName] == nil {
			brokers[queue.BrokerName] = map[primitive.MessageQueue]int64{}
		}
		brokers[queue.BrokerName][queue] = offset
	}
	var failures []error
	for broker, offsets := range brokers {
		address, known := addresses[broker]
		if !known {
			failures = append(failures, fmt.Errorf("broker %s has no master", broker))
			continue
		}
		if err := storeOffsetsAt(ctx, address, credentials, group, offsets); err != nil {
			failures = append(failures, fmt.Errorf("broker %s: %w", broker, err))
		}
	}
	return errors.Join(failures...)
}

func storeOffsetsAt(
	ctx context.Context, broker string, credentials primitive.Credentials, group string, offsets map[primitive.MessageQueue]int64,
) error {
	conn, err := dial(ctx, broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	for queue, offset := range offsets {
		answer, err := conn.request(updateConsumerOffset, sign(map[string]string{
			"consumerGroup": group, "topic": queue.Topic, "queueId": strconv.Itoa(queue.QueueId),
			"commitOffset": strconv.FormatInt(offset, 10), "bname": queue.BrokerName,
		}, credentials))
		if err == nil && answer.Code != success {
			err = answer.err()
		}
		if err != nil {
			return fmt.Errorf("store offset of %s/%d: %w", queue.Topic, queue.QueueId, err)
		}
	}
	return nil
}

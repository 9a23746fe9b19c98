package remoting

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// storePause is between two tries at one broker.
const storePause = 100 * time.Millisecond

// StoreOffsets makes each offset the group's in its queue. It returns nil when the brokers have confirmed all of them, and an
// error when ctx has ended before. It leaves offsets as it is.
func StoreOffsets(
	ctx context.Context, nameServers []string, credentials primitive.Credentials, group string, offsets map[primitive.MessageQueue]int64,
) error {
	brokers := map[string]map[primitive.MessageQueue]int64{}
	for queue, offset := range offsets {
		if brokers[queue.BrokerName] == nil {
			brokers[queue.BrokerName] = map[primitive.MessageQueue]int64{}
		}
		brokers[queue.BrokerName][queue] = offset
	}
	results := make(chan error)
	for broker, left := range brokers { // at once: one that hangs takes all the time there is
		go func() {
			err := storeUntilConfirmed(ctx, nameServers, broker, credentials, group, left)
			if err != nil {
				err = fmt.Errorf("broker %s: %w", broker, err)
			}
			results <- err
		}()
	}
	var failures []error
	for range brokers {
		failures = append(failures, <-results)
	}
	return errors.Join(failures...)
}

// storeUntilConfirmed tries until nothing is left, or ctx ends. It asks for the master each time, which may have changed.
func storeUntilConfirmed(
	ctx context.Context, nameServers []string, broker string, credentials primitive.Credentials, group string, left map[primitive.MessageQueue]int64,
) error {
	var failure error
	for {
		addresses, err := masters(ctx, nameServers)
		if err == nil {
			if address, known := addresses[broker]; known {
				err = storeOffsetsAt(ctx, address, credentials, group, left)
			} else {
				err = errors.New("it has no master")
			}
		}
		if err == nil {
			return nil
		}
		if failure == nil || ctx.Err() == nil { // a try that ctx cuts off does not say why
			failure = err
		}
		select {
		case <-ctx.Done():
			return failure
		case <-time.After(storePause):
		}
	}
}

// storeOffsetsAt takes out of left what the broker has confirmed. One offset that it refuses does not keep it from the others.
func storeOffsetsAt(
	ctx context.Context, address string, credentials primitive.Credentials, group string, left map[primitive.MessageQueue]int64,
) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	var refusals []error
	for queue, offset := range left {
		answer, err := conn.request(updateConsumerOffset, sign(map[string]string{
			"consumerGroup": group, "topic": queue.Topic, "queueId": strconv.Itoa(queue.QueueId),
			"commitOffset": strconv.FormatInt(offset, 10), "bname": queue.BrokerName,
		}, credentials))
		if err != nil {
			return fmt.Errorf("store offset of %s/%d: %w", queue.Topic, queue.QueueId, err)
		}
		if answer.Code == success {
			delete(left, queue)
		} else {
			refusals = append(refusals, fmt.Errorf("store offset of %s/%d: %w", queue.Topic, queue.QueueId, answer.err()))
		}
	}
	return errors.Join(refusals...)
}

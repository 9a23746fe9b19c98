package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
)

// CreateTopic makes a topic of so many queues on every master of the cluster, or changes its number of queues. It is for
// programs that set a cluster up: neither [Messenger] nor [Subscriber] makes topics. The first of nameServers that answers
// is asked, without credentials. It returns when the topic has a route, or with an error when ctx ends before.
func CreateTopic(ctx context.Context, nameServers []string, topic string, queues int) error {
	if !validName(topic) {
		return fmt.Errorf("rocketmq: CreateTopic: topic must be 1 to %d letters, digits, '-' and '_', got %q", maxNameBytes, topic)
	}
	if queues < 1 {
		return fmt.Errorf("rocketmq: CreateTopic: queues must be at least 1, got %d", queues)
	}
	if len(nameServers) == 0 {
		return errors.New("rocketmq: CreateTopic: nameServers must name at least one")
	}
	var problems []error
	for _, nameServer := range nameServers {
		err := remoting.CreateTopic(ctx, nameServer, topic, queues)
		if err == nil {
			return awaitRoute(ctx, nameServer, topic)
		}
		problems = append(problems, err)
	}
	return fmt.Errorf("rocketmq: create topic %s: %w", topic, errors.Join(problems...))
}

// awaitRoute asks until the name server knows the topic: brokers tell it in the background.
func awaitRoute(ctx context.Context, nameServer, topic string) error {
	for {
		missing, err := remoting.Missing(ctx, []string{nameServer}, []string{topic})
		if err == nil && len(missing) == 0 {
			return nil
		}
		if sleep(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("rocketmq: route of %s: %w", topic, errors.Join(ctx.Err(), err))
		}
	}
}

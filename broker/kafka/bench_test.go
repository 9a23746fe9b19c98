package kafka_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/broker/kafka"
	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/txmsg"
)

// BenchmarkPublish publishes batches of 500 keyed messages of about 300 bytes, one call after the other.
func BenchmarkPublish(b *testing.B) {
	address := services.Kafka(b)
	topic := "bench-" + txmsg.NewID()
	createTopic(b, address, topic, 0)
	broker, err := kafka.Open(context.Background(), kafka.Config{Brokers: []string{address}})
	require.NoError(b, err)
	defer broker.Close()
	batch := make([]txmsg.Message, 500)
	for i := range batch {
		batch[i] = txmsg.Message{ID: txmsg.NewID(), Topic: topic, Key: fmt.Sprint("key ", i), Type: "order.created", Body: make([]byte, 200)}
	}
	for b.Loop() {
		for _, err := range broker.Publish(context.Background(), batch) {
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "messages/s")
}

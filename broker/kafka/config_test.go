package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/txmsg/txmsg-go/txmsg"
)

func TestConfigProblemsAreNamedTogether(t *testing.T) {
	_, err := Open(context.Background(), Config{
		Brokers:         []string{"localhost", "host:0", "good:9092"},
		TLS:             TLS{CAFile: "ca.pem", CertFile: "cert.pem"},
		SASL:            SASL{Mechanism: "PLAIN", Username: "u", Password: "secret-word"},
		PublishTimeout:  time.Millisecond,
		MaxMessageBytes: -3,
	})
	require.Error(t, err)
	for _, problem := range []string{
		`kafka: Config.Brokers[0] must be host:port, got "localhost"`,
		`kafka: Config.Brokers[1] must be host:port, got "host:0"`,
		`kafka: Config.TLS must have both CertFile and KeyFile or neither, got "cert.pem" and ""`,
		`kafka: Config.TLS.Enabled must be true when other TLS fields are set, got false`,
		`kafka: Config.SASL.Mechanism must be plain, scram-sha-256 or scram-sha-512, got "PLAIN"`,
		`kafka: Config.PublishTimeout must be between 100ms and 10m, got 1ms`,
		`kafka: Config.MaxMessageBytes must be between 65536 and 67108864, got -3`,
	} {
		require.ErrorContains(t, err, problem)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 7)
	require.NotContains(t, err.Error(), "secret-word")
}

func TestConfigRequiresBrokers(t *testing.T) {
	_, err := Open(context.Background(), Config{})
	require.EqualError(t, err, "kafka: Config.Brokers must name at least one broker as host:port, got none")
}

func TestConfigRequiresUserWithMechanism(t *testing.T) {
	_, err := Open(context.Background(), Config{Brokers: []string{"h:1"}, SASL: SASL{Mechanism: "plain", Username: "u"}})
	require.ErrorContains(t, err, "kafka: Config.SASL must have Username and Password with a mechanism")
	_, err = Open(context.Background(), Config{Brokers: []string{"h:1"}, SASL: SASL{Username: "u"}})
	require.ErrorContains(t, err, "kafka: Config.SASL.Mechanism must be plain")
}

func TestConfigNamesUnreadableTLSFiles(t *testing.T) {
	_, err := Open(context.Background(), Config{Brokers: []string{"h:1"}, TLS: TLS{Enabled: true, CAFile: "/missing/ca.pem"}})
	require.ErrorContains(t, err, "kafka: read TLS.CAFile: open /missing/ca.pem")
}

func TestConfigDefaultsOpenWithoutABroker(t *testing.T) {
	for _, cfg := range []Config{
		{Brokers: []string{"localhost:1"}},
		{Brokers: []string{"localhost:1"}, TLS: TLS{Enabled: true}, SASL: SASL{Mechanism: "scram-sha-512", Username: "u", Password: "p"}},
	} {
		broker, err := Open(context.Background(), cfg)
		require.NoError(t, err)
		require.NoError(t, broker.Close())
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct{ err, class error }{
		{kerr.MessageTooLarge, txmsg.ErrTooLarge},
		{kerr.RecordListTooLarge, txmsg.ErrTooLarge},
		{kerr.UnknownTopicOrPartition, txmsg.ErrNoRoute},
		{kerr.InvalidTopicException, txmsg.ErrRefused},
		{kerr.TopicAuthorizationFailed, txmsg.ErrRefused},
		{kerr.PolicyViolation, txmsg.ErrRefused},
		{kerr.InvalidRecord, txmsg.ErrRefused},
		{kerr.SaslAuthenticationFailed, txmsg.ErrOutage},
		{kerr.NotEnoughReplicas, txmsg.ErrOutage},
		{kerr.NotEnoughReplicasAfterAppend, txmsg.ErrOutage},
		{kerr.RequestTimedOut, txmsg.ErrOutage},
		{kerr.OutOfOrderSequenceNumber, txmsg.ErrOutage},
		{kgo.ErrRecordTimeout, txmsg.ErrOutage},
		{kgo.ErrClientClosed, txmsg.ErrOutage},
		{context.Canceled, txmsg.ErrOutage},
		{errors.New("anything"), txmsg.ErrOutage},
	} {
		err := classify("orders", fmt.Errorf("wrapped: %w", c.err))
		require.ErrorIs(t, err, c.class, "%v", c.err)
		require.ErrorIs(t, err, c.err)
	}
	require.NoError(t, classify("orders", nil))
	require.ErrorContains(t, classify("orders.v1", kerr.UnknownTopicOrPartition), `"orders.v1"`)
}

func TestSubscriberConfigProblemsAreNamedTogether(t *testing.T) {
	_, err := NewSubscriber(SubscriberConfig{
		Topics: []string{"orders", "orders", ""}, Start: "middle", Concurrency: -1, Buffer: -2,
		RetryPause: -time.Second, CommitInterval: time.Hour, SessionTimeout: time.Millisecond, Timeout: -1,
	})
	require.Error(t, err)
	for _, problem := range []string{
		`kafka: SubscriberConfig.Brokers must name at least one broker as host:port, got none`,
		`kafka: SubscriberConfig.Group must be given, got ""`,
		`kafka: SubscriberConfig.Topics[1] must be a topic that is not named twice, got "orders"`,
		`kafka: SubscriberConfig.Topics[2] must be a topic that is not named twice, got ""`,
		`kafka: SubscriberConfig.Start must be oldest or newest, got "middle"`,
		`kafka: SubscriberConfig.Concurrency must be between 1 and 10000, got -1`,
		`kafka: SubscriberConfig.Buffer must be between 1 and 1000000, got -2`,
		`kafka: SubscriberConfig.RetryPause must be between 1ms and 1m0s, got -1s`,
		`kafka: SubscriberConfig.CommitInterval must be between 100ms and 1m0s, got 1h0m0s`,
		`kafka: SubscriberConfig.SessionTimeout must be between 1s and 30m0s, got 1ms`,
		`kafka: SubscriberConfig.Timeout must be between 100ms and 10m0s, got -1ns`,
	} {
		require.ErrorContains(t, err, problem)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 11)
}

func TestSubscriberConfigDefaults(t *testing.T) {
	_, err := NewSubscriber(SubscriberConfig{Brokers: []string{"localhost:9092"}, Group: "payments", Topics: []string{"orders"}})
	require.NoError(t, err)
}

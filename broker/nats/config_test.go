package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func TestConfigProblemsAreNamedTogether(t *testing.T) {
	_, err := Open(context.Background(), Config{
		URLs:            []string{"localhost:4222", "nats://user:secret-word@host:0", "nats://good:4222", "nats://user:secret-word@ho st:1"},
		Auth:            Auth{CredentialsFile: "/missing/app.creds", Username: "user"},
		TLS:             TLS{CertFile: "/missing/cert.pem"},
		PublishTimeout:  time.Millisecond,
		MaxMessageBytes: -3,
	})
	require.Error(t, err)
	for _, problem := range []string{
		`nats: Config.URLs[0] must be nats://host:port or tls://host:port, got "localhost:4222"`,
		`nats: Config.URLs[1] must be nats://host:port or tls://host:port, got "nats://user:xxxxx@host:0"`,
		`nats: Config.URLs[3] must be nats://host:port or tls://host:port, got "ho st:1"`,
		`nats: Config.Auth must have a CredentialsFile or a Username, not both, got "user"`,
		`nats: Config.Auth must have both Username and Password or neither, got one of them`,
		`nats: Config.TLS must have both CertFile and KeyFile or neither, got "/missing/cert.pem" and ""`,
		`nats: Config.Auth.CredentialsFile must be a file that is there, got stat /missing/app.creds`,
		`nats: Config.TLS.CertFile must be a file that is there, got stat /missing/cert.pem`,
		`nats: Config.PublishTimeout must be between 100ms and 10m, got 1ms`,
		`nats: Config.MaxMessageBytes must be between 32768 and 67108864, got -3`,
	} {
		require.ErrorContains(t, err, problem)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 10)
	require.NotContains(t, err.Error(), "secret-word")
}

func TestConfigRequiresAServer(t *testing.T) {
	_, err := Open(context.Background(), Config{})
	require.EqualError(t, err, "nats: Config.URLs must name at least one server as nats://host:port, got none")
}

func TestOpensWithoutAServer(t *testing.T) {
	broker, err := Open(context.Background(), Config{URLs: []string{"nats://127.0.0.1:1"}})
	require.NoError(t, err)
	results := broker.Publish(context.Background(), []txmsg.Message{{ID: "1", Topic: "orders"}})
	require.ErrorIs(t, results[0], txmsg.ErrOutage)
	require.NoError(t, broker.Close())
}

func TestClassify(t *testing.T) {
	api := func(code, errorCode int) error {
		return &jetstream.APIError{Code: code, ErrorCode: jetstream.ErrorCode(errorCode)}
	}
	for _, c := range []struct{ err, class error }{
		{nats.ErrMaxPayload, txmsg.ErrTooLarge},
		{api(400, 10054), txmsg.ErrTooLarge},
		{api(400, 10097), txmsg.ErrTooLarge},
		{api(400, 10060), txmsg.ErrRefused},
		{api(503, 10077), txmsg.ErrOutage}, // the stream is full
		{api(500, 10047), txmsg.ErrOutage}, // the disk is full
		{jetstream.ErrInvalidJSAck, txmsg.ErrRefused},
		{nats.ErrBadSubject, txmsg.ErrRefused},
		{nats.ErrDisconnected, txmsg.ErrOutage},
		{nats.ErrReconnectBufExceeded, txmsg.ErrOutage},
		{nats.ErrConnectionClosed, txmsg.ErrOutage},
		{jetstream.ErrAsyncPublishTimeout, txmsg.ErrOutage},
		{context.Canceled, txmsg.ErrOutage},
		{errors.New("anything"), txmsg.ErrOutage},
	} {
		err := classify("orders", fmt.Errorf("wrapped: %w", c.err))
		require.ErrorIs(t, err, c.class, "%v", c.err)
		require.ErrorIs(t, err, c.err)
	}
	require.NoError(t, classify("orders", nil))
}

func TestSubscriberConfigProblemsAreNamedTogether(t *testing.T) {
	_, err := NewSubscriber(SubscriberConfig{
		Group: "a=b", Topics: []string{"orders", "orders", "all.>"}, Start: "middle", Bucket: "a b",
		Concurrency: -1, Buffer: -2, RetryPause: -time.Second, CommitInterval: time.Second, SessionTimeout: 2 * time.Second, Timeout: -1,
	})
	require.Error(t, err)
	for _, problem := range []string{
		`nats: SubscriberConfig.URLs must name at least one server as nats://host:port, got none`,
		`nats: SubscriberConfig.Group must be letters, digits, '-', '_' and single '.' inside, got "a=b"`,
		`nats: SubscriberConfig.Topics[1] must be a subject without wildcards that is not named twice, got "orders"`,
		`nats: SubscriberConfig.Topics[2] must be a subject without wildcards that is not named twice, got "all.>"`,
		`nats: SubscriberConfig.Start must be oldest or newest, got "middle"`,
		`nats: SubscriberConfig.Bucket must be letters, digits, '-' and '_', got "a b"`,
		`nats: SubscriberConfig.Concurrency must be between 1 and 10000, got -1`,
		`nats: SubscriberConfig.Buffer must be between 1 and 1000000, got -2`,
		`nats: SubscriberConfig.RetryPause must be between 1ms and 1m0s, got -1s`,
		`nats: SubscriberConfig.SessionTimeout must be between 3s and 30m0s, got 2s`,
		`nats: SubscriberConfig.Timeout must be between 100ms and 10m0s, got -1ns`,
	} {
		require.ErrorContains(t, err, problem)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 11)
}

func TestSubscriberConfigDefaults(t *testing.T) {
	_, err := NewSubscriber(SubscriberConfig{URLs: []string{"nats://localhost:4222"}, Group: "payments", Topics: []string{"orders"}})
	require.NoError(t, err)
}

package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is what a [Broker] needs to know.
type Config struct {
	// Brokers are addresses as host:port from which the cluster is found. Required.
	Brokers []string `yaml:"brokers"`
	// ClientID names this program in the broker's logs and quotas. Defaults to "txmsg".
	ClientID string `yaml:"client_id"`
	// TLS encrypts connections. Defaults to none.
	TLS TLS `yaml:"tls"`
	// SASL authenticates. Defaults to none.
	SASL SASL `yaml:"sasl"`
	// PublishTimeout is the longest wait for the broker's answer in one call. Defaults to 10 s.
	PublishTimeout time.Duration `yaml:"publish_timeout"`
	// MaxMessageBytes is the largest record batch that the brokers take, their message.max.bytes: a message that would
	// not fit alone is refused before it is sent. Defaults to 1048588, as the brokers do.
	MaxMessageBytes int `yaml:"max_message_bytes"`
	// Logger gets what the client has to say. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

const (
	minMaxMessageBytes = 64 << 10
	maxMaxMessageBytes = 64 << 20 // the client's own limit for a request is 100 MiB
)

func (c *Config) setDefaults() {
	c.ClientID = cmp.Or(c.ClientID, "txmsg")
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 10*time.Second)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, 1<<20+12)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	problems := c.connection().validate("Config")
	if c.PublishTimeout < 100*time.Millisecond || c.PublishTimeout > 10*time.Minute {
		problems = append(problems, fmt.Errorf("kafka: Config.PublishTimeout must be between 100ms and 10m, got %v", c.PublishTimeout))
	}
	if c.MaxMessageBytes < minMaxMessageBytes || c.MaxMessageBytes > maxMaxMessageBytes {
		problems = append(problems, fmt.Errorf("kafka: Config.MaxMessageBytes must be between %d and %d, got %d", minMaxMessageBytes, maxMaxMessageBytes, c.MaxMessageBytes))
	}
	return errors.Join(problems...)
}

func (c *Config) connection() connection {
	return connection{brokers: c.Brokers, clientID: c.ClientID, tls: c.TLS, sasl: c.SASL, timeout: c.PublishTimeout, logger: c.Logger}
}

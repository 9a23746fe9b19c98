package nats

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Config is what a [Broker] needs to know.
type Config struct {
	// URLs are the servers, as nats://host:port or tls://host:port. Required, unless InProcess is given.
	URLs []string `yaml:"urls"`
	// InProcess is a server that runs in this program. Defaults to none.
	InProcess nats.InProcessConnProvider `yaml:"-"`
	// ClientName names this program in the server's logs. Defaults to "txmsg".
	ClientName string `yaml:"client_name"`
	// Auth authenticates. Defaults to none.
	Auth Auth `yaml:"auth"`
	// TLS configures encryption, which the servers' URLs or the servers ask for. Defaults to the system's certificates.
	TLS TLS `yaml:"tls"`
	// PublishTimeout is the longest wait for the server's answer in one call. Defaults to 10 s.
	PublishTimeout time.Duration `yaml:"publish_timeout"`
	// MaxMessageBytes is the largest message with its headers; the server's own max_payload holds as well once it is known.
	// Defaults to 1 MiB, as the server does.
	MaxMessageBytes int `yaml:"max_message_bytes"`
	// Logger gets what the client has to say. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

const (
	minMaxMessageBytes = 32 << 10
	maxMaxMessageBytes = 64 << 20 // the server's own limit for max_payload
)

func (c *Config) setDefaults() {
	c.ClientName = cmp.Or(c.ClientName, "txmsg")
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 10*time.Second)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, 1<<20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	problems := c.connection().validate("Config")
	if c.PublishTimeout < 100*time.Millisecond || c.PublishTimeout > 10*time.Minute {
		problems = append(problems, fmt.Errorf("nats: Config.PublishTimeout must be between 100ms and 10m, got %v", c.PublishTimeout))
	}
	if c.MaxMessageBytes < minMaxMessageBytes || c.MaxMessageBytes > maxMaxMessageBytes {
		problems = append(problems, fmt.Errorf("nats: Config.MaxMessageBytes must be between %d and %d, got %d", minMaxMessageBytes, maxMaxMessageBytes, c.MaxMessageBytes))
	}
	return errors.Join(problems...)
}

func (c *Config) connection() connection {
	return connection{
		urls: c.URLs, inProcess: c.InProcess, name: c.ClientName, auth: c.Auth, tls: c.TLS,
		timeout: c.PublishTimeout, logger: c.Logger,
	}
}

package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// SubscriberConfig is what a [Subscriber] needs to know.
type SubscriberConfig struct {
	// Brokers are addresses as host:port from which the cluster is found. Required.
	Brokers []string `yaml:"brokers"`
	// ClientID names this program in the broker's logs and quotas. Defaults to "txmsg".
	ClientID string `yaml:"client_id"`
	// TLS encrypts connections. Defaults to none.
	TLS TLS `yaml:"tls"`
	// SASL authenticates. Defaults to none.
	SASL SASL `yaml:"sasl"`
	// Group is the consumer group: its members share the topics' partitions. Required.
	Group string `yaml:"group"`
	// Topics are read. One that does not exist is waited for. Required.
	Topics []string `yaml:"topics"`
	// Start is where a group begins that has no position in a partition yet: "oldest" or "newest". Defaults to "oldest".
	Start string `yaml:"start"`
	// Concurrency is the most delivery calls that run at once. Defaults to 16.
	Concurrency int `yaml:"concurrency"`
	// Buffer is the most messages of one partition that are held and not acknowledged. Defaults to 1000.
	Buffer int `yaml:"buffer"`
	// RetryPause is the pause before a message that was not acknowledged is delivered again; it doubles with each time, up
	// to 64 times. Defaults to 200 ms.
	RetryPause time.Duration `yaml:"retry_pause"`
	// CommitInterval is how often the group's position is stored: after a crash, what was acknowledged since then
	// comes again. Defaults to 1 s.
	CommitInterval time.Duration `yaml:"commit_interval"`
	// SessionTimeout is how long after its last sign of life a member's partitions go to the others. Defaults to 20 s.
	SessionTimeout time.Duration `yaml:"session_timeout"`
	// Timeout bounds connecting, and the storing of the position at the end. Defaults to 10 s.
	Timeout time.Duration `yaml:"timeout"`
	// Logger gets what goes wrong. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

func (c *SubscriberConfig) setDefaults() {
	c.ClientID = cmp.Or(c.ClientID, "txmsg")
	c.Start = cmp.Or(c.Start, "oldest")
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.Buffer = cmp.Or(c.Buffer, 1000)
	c.RetryPause = cmp.Or(c.RetryPause, 200*time.Millisecond)
	c.CommitInterval = cmp.Or(c.CommitInterval, time.Second)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 20*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *SubscriberConfig) validate() error {
	problems := c.connection().validate("SubscriberConfig")
	add := func(field, rule string, value any) {
		problems = append(problems, fmt.Errorf("kafka: SubscriberConfig.%s %s, got %v", field, rule, value))
	}
	if c.Group == "" {
		add("Group", "must be given", `""`)
	}
	if len(c.Topics) == 0 {
		add("Topics", "must name at least one topic", "none")
	}
	seen := map[string]bool{}
	for i, topic := range c.Topics {
		if topic == "" || seen[topic] {
			add(fmt.Sprintf("Topics[%d]", i), "must be a topic that is not named twice", strconv.Quote(topic))
		}
		seen[topic] = true
	}
	if c.Start != "oldest" && c.Start != "newest" {
		add("Start", "must be oldest or newest", strconv.Quote(c.Start))
	}
	if c.Concurrency < 1 || c.Concurrency > 10_000 {
		add("Concurrency", "must be between 1 and 10000", c.Concurrency)
	}
	if c.Buffer < 1 || c.Buffer > 1_000_000 {
		add("Buffer", "must be between 1 and 1000000", c.Buffer)
	}
	for _, field := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{
		{"RetryPause", c.RetryPause, time.Millisecond, time.Minute},
		{"CommitInterval", c.CommitInterval, 100 * time.Millisecond, time.Minute},
		{"SessionTimeout", c.SessionTimeout, time.Second, 30 * time.Minute},
		{"Timeout", c.Timeout, 100 * time.Millisecond, 10 * time.Minute},
	} {
		if field.value < field.least || field.value > field.most {
			add(field.name, fmt.Sprintf("must be between %v and %v", field.least, field.most), field.value)
		}
	}
	return errors.Join(problems...)
}

func (c *SubscriberConfig) connection() connection {
	return connection{brokers: c.Brokers, clientID: c.ClientID, tls: c.TLS, sasl: c.SASL, timeout: c.Timeout, logger: c.Logger}
}

package nats

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// SubscriberConfig is what a [Subscriber] needs to know.
type SubscriberConfig struct {
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
	// Group is the consumer group: it has one position in each topic. Letters, digits, '-', '_', and single '.' inside.
	// Required.
	Group string `yaml:"group"`
	// Topics are read: subjects, without wildcards. One that no stream takes is waited for. Required.
	Topics []string `yaml:"topics"`
	// Start is where a group begins that has no position in a topic yet: "oldest" or "newest". Defaults to "oldest".
	Start string `yaml:"start"`
	// Bucket is the key-value bucket that keeps the groups' positions; it is created when it is not there, with as many
	// replicas as the topic's stream. Defaults to "txmsg-groups".
	Bucket string `yaml:"bucket"`
	// Concurrency is the most delivery calls that run at once. Defaults to 16.
	Concurrency int `yaml:"concurrency"`
	// Buffer is the most messages of one topic that are held and not acknowledged. Defaults to 1000.
	Buffer int `yaml:"buffer"`
	// RetryPause is the pause before a message that was not acknowledged is delivered again; it doubles with each time, up
	// to 64 times. Defaults to 200 ms.
	RetryPause time.Duration `yaml:"retry_pause"`
	// CommitInterval is how often the group's position is stored, which also is the sign of life to the other
	// members: after a crash, what was acknowledged since then comes again. Defaults to 1 s.
	CommitInterval time.Duration `yaml:"commit_interval"`
	// SessionTimeout is how long after its last sign of life another member takes a topic over; at least three times
	// CommitInterval. Defaults to 5 s.
	SessionTimeout time.Duration `yaml:"session_timeout"`
	// Timeout bounds connecting and each request. Defaults to 5 s.
	Timeout time.Duration `yaml:"timeout"`
	// Logger gets what goes wrong. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

func (c *SubscriberConfig) setDefaults() {
	c.ClientName = cmp.Or(c.ClientName, "txmsg")
	c.Start = cmp.Or(c.Start, "oldest")
	c.Bucket = cmp.Or(c.Bucket, "txmsg-groups")
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.Buffer = cmp.Or(c.Buffer, 1000)
	c.RetryPause = cmp.Or(c.RetryPause, 200*time.Millisecond)
	c.CommitInterval = cmp.Or(c.CommitInterval, time.Second)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

var (
	nameSyntax   = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	bucketSyntax = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

func (c *SubscriberConfig) validate() error {
	problems := c.connection().validate("SubscriberConfig")
	add := func(field, rule string, value any) {
		problems = append(problems, fmt.Errorf("nats: SubscriberConfig.%s %s, got %v", field, rule, value))
	}
	if !nameSyntax.MatchString(c.Group) {
		add("Group", "must be letters, digits, '-', '_' and single '.' inside", strconv.Quote(c.Group))
	}
	if len(c.Topics) == 0 {
		add("Topics", "must name at least one topic", "none")
	}
	seen := map[string]bool{}
	for i, topic := range c.Topics {
		if !nameSyntax.MatchString(topic) || seen[topic] {
			add(fmt.Sprintf("Topics[%d]", i), "must be a subject without wildcards that is not named twice", strconv.Quote(topic))
		}
		seen[topic] = true
	}
	if c.Start != "oldest" && c.Start != "newest" {
		add("Start", "must be oldest or newest", strconv.Quote(c.Start))
	}
	if !bucketSyntax.MatchString(c.Bucket) {
		add("Bucket", "must be letters, digits, '-' and '_'", strconv.Quote(c.Bucket))
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
		{"CommitInterval", c.CommitInterval, 50 * time.Millisecond, time.Minute},
		{"SessionTimeout", c.SessionTimeout, 3 * c.CommitInterval, 30 * time.Minute},
		{"Timeout", c.Timeout, 100 * time.Millisecond, 10 * time.Minute},
	} {
		if field.value < field.least || field.value > field.most {
			add(field.name, fmt.Sprintf("must be between %v and %v", field.least, field.most), field.value)
		}
	}
	return errors.Join(problems...)
}

func (c *SubscriberConfig) connection() connection {
	return connection{
		urls: c.URLs, inProcess: c.InProcess, name: c.ClientName, auth: c.Auth, tls: c.TLS,
		timeout: c.Timeout, logger: c.Logger,
	}
}

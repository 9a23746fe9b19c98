package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// Config of a [Consumer].
type Config struct {
	// Name is the consumer's name in the inbox: copies of a message are known by it and the message's ID, so it must not
	// change while messages may come again. 1 to 127 letters, digits, '.', '_' and '-'. It has no default.
	Name string `yaml:"name"`
	// Topics are the topics that metrics and spans name; the others are "other". Defaults to none.
	Topics []string `yaml:"topics"`

	// Attempts is how often the handler may fail before the message is buried. Defaults to 10.
	Attempts int `yaml:"attempts"`
	// BackoffMin is the time between the first attempt and the second; it doubles from attempt to attempt, give or take a
	// half at random. Defaults to 200 ms.
	BackoffMin time.Duration `yaml:"backoff_min"`
	// BackoffMax is where the backoff stops growing. Defaults to 30 s.
	BackoffMax time.Duration `yaml:"backoff_max"`
	// HandlerTimeout is the time after which a handler's context ends; the attempt has then failed. The same time is
	// given to the database for everything else in the transaction but its commit. Defaults to 30 s.
	HandlerTimeout time.Duration `yaml:"handler_timeout"`
	// DrainTimeout is the time that handlers under way have when Run is to end. Then their contexts end too, and a tenth
	// of it later, at most 1 s, they are left behind. Defaults to 20 s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`

	// Retention is how long inbox rows are kept. A copy that comes later takes effect again, so it must be longer than any
	// way for one to come: the broker's retention, a publisher's retries and dead rows, a replay by hand. Consumers that
	// share an inbox share the shortest retention. Defaults to 7 days.
	Retention time.Duration `yaml:"retention"`
	// PruneInterval is the time between two prunings of the inbox. Defaults to 1 min.
	PruneInterval time.Duration `yaml:"prune_interval"`
	// PruneBatch is the most rows that one statement removes. Defaults to 1000.
	PruneBatch int `yaml:"prune_batch"`

	// Logger gets warnings and buried messages, and each message at level Debug. Defaults to discarding them.
	Logger *slog.Logger `yaml:"-"`
}

func (c *Config) setDefaults() {
	c.Attempts = cmp.Or(c.Attempts, 10)
	c.BackoffMin = cmp.Or(c.BackoffMin, 200*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 30*time.Second)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 20*time.Second)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	c.PruneInterval = cmp.Or(c.PruneInterval, time.Minute)
	c.PruneBatch = cmp.Or(c.PruneBatch, 1000)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9._-]{1,127}$`)

func (c *Config) validate() error {
	var problems []error
	if !nameSyntax.MatchString(c.Name) {
		problems = append(problems, fmt.Errorf("consumer: Config.Name must be 1 to 127 letters, digits, '.', '_' and '-', got %q", c.Name))
	}
	for _, field := range []struct {
		name       string
		value, min int
	}{
		{"Attempts", c.Attempts, 1},
		{"PruneBatch", c.PruneBatch, 1},
	} {
		if field.value < field.min {
			problems = append(problems, fmt.Errorf("consumer: Config.%s must be at least %d, got %d", field.name, field.min, field.value))
		}
	}
	for _, field := range []struct {
		name       string
		value, min time.Duration
	}{
		{"BackoffMin", c.BackoffMin, time.Millisecond},
		{"HandlerTimeout", c.HandlerTimeout, time.Millisecond},
		{"DrainTimeout", c.DrainTimeout, time.Millisecond},
		{"Retention", c.Retention, time.Hour},
		{"PruneInterval", c.PruneInterval, time.Second},
	} {
		if field.value < field.min {
			problems = append(problems, fmt.Errorf("consumer: Config.%s must be at least %s, got %s", field.name, field.min, field.value))
		}
	}
	if c.BackoffMax < c.BackoffMin {
		problems = append(problems, fmt.Errorf("consumer: Config.BackoffMax must be at least BackoffMin (%s), got %s", c.BackoffMin, c.BackoffMax))
	}
	return errors.Join(problems...)
}

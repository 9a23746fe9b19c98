package localtable

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Config is the configuration of a Messenger; the zero value works.
type Config struct {
	// Destination is the name that rows carry and this relay reads, in the form of a topic. With routes each has its own, and
	// this must be empty. Defaults to "default".
	Destination string `yaml:"destination"`
	// BatchSize is the most rows that are read, published and settled together; after a crash so many may be sent twice. Where
	// bodies are large a batch has fewer: about 16 MB of them, judged by those before. The first has at most 125.
	// Defaults to 1000.
	BatchSize int `yaml:"batch_size"`
	// Concurrency is the most batches of a destination under way at once, each of other lanes. The relay uses at most so many
	// connections of the database's pool for each destination, one more for each, and four; a store may open more for Notify
	// and Listen. Defaults to 3.
	Concurrency int `yaml:"concurrency"`
	// PollInterval is the longest time between two looks for due rows; commits are seen at once where the database can tell
	// of them (see [Store.Listen]), those of this process in any case. Defaults to 1 s.
	PollInterval time.Duration `yaml:"poll_interval"`
	// LeaseTTL is how long the lanes of a process that died stay untouched. A process that is paused for longer loses
	// its lanes. Defaults to 10 s.
	LeaseTTL time.Duration `yaml:"lease_ttl"`
	// MaxAttempts is how many refusals make a message dead. With the fast schedule the default is about an hour. Defaults
	// to 20.
	MaxAttempts int `yaml:"max_attempts"`
	// Schedule is the time between the attempts of a refused message. Defaults to fast.
	Schedule Schedule `yaml:"schedule"`
	// DeadKey is what a dead message does to the later ones of its key. Defaults to hold: who gives a key wants order.
	DeadKey DeadKey `yaml:"dead_key"`
	// NoRoute is what becomes of a message whose topic the broker does not have. Defaults to wait: a missing topic is
	// most often one that is made too late, and then nobody has to do anything.
	NoRoute NoRoute `yaml:"no_route"`
	// Retention is how long delivered messages can be looked up; 0 deletes them at once. Nil defaults to 24 h.
	Retention *time.Duration `yaml:"retention"`
	// DrainTimeout bounds the end of Run: for so long it waits for the broker's answers and records them. Defaults to 10 s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Topics are those that this service publishes to. Run ends with an error if their broker does not have them, and metrics
	// tell them apart. Others can be used too. Defaults to none.
	Topics []string `yaml:"topics"`
	// AllowMissing lets Run go on without some of Topics; what goes there waits, see NoRoute. Defaults to false.
	AllowMissing bool `yaml:"allow_missing"`
	// Logger gets what a person should know. Defaults to none.
	Logger *slog.Logger `yaml:"-"`
}

// Schedule names the times between attempts. Each is up to a quarter longer, at random.
type Schedule string

// The schedules.
const (
	Fast    Schedule = "fast"    // 1 s, doubled each time, at most 5 min
	Patient Schedule = "patient" // 60 s, five times as long each time, at most 24 h
)

// DeadKey names what a dead message does to the later ones of its key.
type DeadKey string

// The fates of a dead message's key.
const (
	Hold    DeadKey = "hold"    // they wait until a person decides
	Release DeadKey = "release" // they go on without it
)

// NoRoute names what becomes of a message whose topic the broker does not have.
type NoRoute string

// The fates of a message without a route.
const (
	Wait NoRoute = "wait" // it is tried again at times that grow as the schedule's do, without limit and at the cost of no attempt
	Die  NoRoute = "dead" // it is dead at once
)

func (c *Config) setDefaults() {
	c.Destination = cmp.Or(c.Destination, "default")
	c.BatchSize = cmp.Or(c.BatchSize, 1000)
	c.Concurrency = cmp.Or(c.Concurrency, 3)
	c.PollInterval = cmp.Or(c.PollInterval, time.Second)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 10*time.Second)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 20)
	c.Schedule = cmp.Or(c.Schedule, Fast)
	c.DeadKey = cmp.Or(c.DeadKey, Hold)
	c.NoRoute = cmp.Or(c.NoRoute, Wait)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	if c.Retention == nil {
		c.Retention = new(24 * time.Hour)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// check validates what the configuration is with its defaults.
func (c Config) check() error {
	c.setDefaults()
	return c.validate()
}

func (c *Config) validate() error {
	var problems []error
	check := func(ok bool, field, rule string, value any) {
		if !ok {
			problems = append(problems, fmt.Errorf("localtable: Config.%s must be %s, got %v", field, rule, value))
		}
	}
	check(isName(c.Destination), "Destination", "a name of letters, digits, '-', '_' and single '.' inside", fmt.Sprintf("%q", c.Destination))
	check(c.BatchSize >= 1 && c.BatchSize <= 10_000, "BatchSize", "between 1 and 10000", c.BatchSize)
	check(c.Concurrency >= 1 && c.Concurrency <= Lanes, "Concurrency", fmt.Sprintf("between 1 and %d", Lanes), c.Concurrency)
	check(c.PollInterval >= time.Millisecond, "PollInterval", "at least 1ms", c.PollInterval)
	check(c.LeaseTTL >= time.Second, "LeaseTTL", "at least 1s", c.LeaseTTL)
	check(c.MaxAttempts >= 1, "MaxAttempts", "at least 1", c.MaxAttempts)
	check(c.Schedule == Fast || c.Schedule == Patient, "Schedule", "fast or patient", c.Schedule)
	check(c.DeadKey == Hold || c.DeadKey == Release, "DeadKey", "hold or release", c.DeadKey)
	check(c.NoRoute == Wait || c.NoRoute == Die, "NoRoute", "wait or dead", c.NoRoute)
	check(*c.Retention >= 0, "Retention", "at least 0", *c.Retention)
	check(c.DrainTimeout >= time.Millisecond, "DrainTimeout", "at least 1ms", c.DrainTimeout)
	for i, topic := range c.Topics {
		if err := (txmsg.Message{Topic: topic}).Validate(); err != nil {
			problems = append(problems, fmt.Errorf("localtable: Config.Topics[%d]: %w", i, err))
		}
	}
	return errors.Join(problems...)
}

package checker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config of a [Fence]; the zero value works.
type Config struct {
	// Group names the producer group in warnings about halves of another owner. Defaults to "".
	Group string `yaml:"group"`
	// Wait is how long a check waits for a transaction that is open. Brokers' clients ask one check at a time, so a
	// long wait holds up the others. Defaults to 500 ms.
	Wait time.Duration `yaml:"wait"`
	// Timeout bounds a check. It must be longer than Wait. Defaults to 2 s.
	Timeout time.Duration `yaml:"timeout"`
	// ShortCircuit is how long, after the database failed, checks are answered Unknown without asking it. Defaults to 1 s.
	ShortCircuit time.Duration `yaml:"short_circuit"`
	// Retention is how long records and tombstones are kept. A half older than six sevenths of it is not fenced: the last
	// seventh is the margin for clocks that differ. It must be longer than twice the time for which the broker keeps
	// messages. Defaults to 7 days, for a broker that keeps them 72 hours.
	Retention time.Duration `yaml:"retention"`
	// PruneInterval is the time between two prunings. Defaults to 1 min.
	PruneInterval time.Duration `yaml:"prune_interval"`
	// PruneBatch is the most rows that one statement removes. Defaults to 1000.
	PruneBatch int `yaml:"prune_batch"`
	// Own is asked about halves whose record has expired. Defaults to none.
	Own Checker `yaml:"-"`
	// Logger gets warnings. Defaults to discarding them.
	Logger *slog.Logger `yaml:"-"`
}

func (c *Config) setDefaults() {
	c.Wait = cmp.Or(c.Wait, 500*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	c.ShortCircuit = cmp.Or(c.ShortCircuit, time.Second)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	c.PruneInterval = cmp.Or(c.PruneInterval, time.Minute)
	c.PruneBatch = cmp.Or(c.PruneBatch, 1000)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	var problems []error
	for _, field := range []struct {
		name       string
		value, min time.Duration
	}{
		{"Wait", c.Wait, time.Millisecond},
		{"Timeout", c.Timeout, time.Millisecond},
		{"ShortCircuit", c.ShortCircuit, time.Millisecond},
		{"Retention", c.Retention, time.Hour},
		{"PruneInterval", c.PruneInterval, time.Second},
	} {
		if field.value < field.min {
			problems = append(problems, fmt.Errorf("checker: Config.%s must be at least %s, got %s", field.name, field.min, field.value))
		}
	}
	if c.Timeout <= c.Wait {
		problems = append(problems, fmt.Errorf("checker: Config.Timeout must be longer than Wait (%s), got %s", c.Wait, c.Timeout))
	}
	if c.PruneBatch < 1 {
		problems = append(problems, fmt.Errorf("checker: Config.PruneBatch must be at least 1, got %d", c.PruneBatch))
	}
	return errors.Join(problems...)
}

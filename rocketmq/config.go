package rocketmq

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"time"

	"github.com/txmsg/txmsg-go/checker"
)

// Config of a [Messenger]. NameServers, Group and Topics are required.
type Config struct {
	// NameServers are the name servers of one cluster, each as host:port with an address or a name. A proxy's port does
	// not do: it loses settlements.
	NameServers []string `yaml:"name_servers"`
	// Group is the producer group: one for each database, and the same in every instance that uses the database. The broker
	// asks any instance of the group about its half messages, so no plain producer may use it.
	Group string `yaml:"group"`
	// Topics are all topics that this messenger publishes to. Publishing to another one is refused: a restarted
	// producer is asked about its half messages only by the brokers of the topics that it knows.
	Topics []string `yaml:"topics"`
	// AllowMissing lets Run wait for topics that do not exist; publishing to one is [txmsg.ErrNoRoute] until it does.
	// Defaults to false: a missing topic is an error of Run.
	AllowMissing bool `yaml:"allow_missing"`
	// Credentials for a cluster that demands them. Defaults to none.
	Credentials Credentials `yaml:"credentials"`
	// SendTimeout bounds one try to store a half message. Defaults to 2 s.
	SendTimeout time.Duration `yaml:"send_timeout"`
	// PrepareTimeout bounds the wait for all half messages of a transaction after its callback; the transaction holds its
	// locks for as long. It must be longer than SendTimeout, and should be well below the broker's transactionTimeOut.
	// Defaults to 5 s.
	PrepareTimeout time.Duration `yaml:"prepare_timeout"`
	// Tries is how often storing one message is tried, each time as a new half message, at most 16. Defaults to 3.
	Tries int `yaml:"tries"`
	// MaxStoring is the most half messages that are being stored at once. Defaults to 64.
	MaxStoring int `yaml:"max_storing"`
	// Immunity is the time in whole seconds before which the broker does not ask about a half message. A 5.x broker refuses
	// a settlement that comes later, and each round of checks that it skips counts against its limit, so it
	// must be well below transactionCheckInterval × transactionCheckMax. Defaults to 0: the broker's transactionTimeOut.
	Immunity time.Duration `yaml:"immunity"`
	// HoldTimeout is how long a half message waits in this process for the end of its transaction; one that has waited
	// longer is settled by a check. Defaults to 10 min, and with Immunity to 5 s less than that.
	HoldTimeout time.Duration `yaml:"hold_timeout"`
	// DrainTimeout is how long Run, after its context ended, waits for the transactions under way. Defaults to 10 s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// CommitTimeout and ResolveTimeout are those of [txmsg.TransactConfig]. Default to 10 s each.
	CommitTimeout  time.Duration `yaml:"commit_timeout"`
	ResolveTimeout time.Duration `yaml:"resolve_timeout"`
	// Checker is how checks are answered. Its Group and Logger default to those of this Config.
	Checker checker.Config `yaml:"checker"`
	// Logger gets what this messenger and the client library have to say. The library has one logger for the whole
	// process: the Logger of the first messenger or subscriber serves them all. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

// Credentials are what RocketMQ's access control asks for.
type Credentials struct {
	AccessKey     string `yaml:"access_key"`
	SecretKey     string `yaml:"secret_key"`
	SecurityToken string `yaml:"security_token"` // Defaults to none
}

const (
	maxImmunity  = 5 * time.Minute // 15 rounds of 30 s are the broker's default limit; some must be left for real checks
	immunityEdge = 5 * time.Second // what a settlement must come before the end of the immunity
	minImmunity  = 2 * immunityEdge
)

func (c *Config) setDefaults() {
	c.SendTimeout = cmp.Or(c.SendTimeout, 2*time.Second)
	c.PrepareTimeout = cmp.Or(c.PrepareTimeout, 5*time.Second)
	c.Tries = cmp.Or(c.Tries, 3)
	c.MaxStoring = cmp.Or(c.MaxStoring, 64)
	hold := 10 * time.Minute
	if c.Immunity > 0 {
		hold = c.Immunity - immunityEdge
	}
	c.HoldTimeout = cmp.Or(c.HoldTimeout, hold)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 10*time.Second)
	c.ResolveTimeout = cmp.Or(c.ResolveTimeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Checker.Group = cmp.Or(c.Checker.Group, c.Group)
	c.Checker.Logger = cmp.Or(c.Checker.Logger, c.Logger)
	c.Checker.Timeout = cmp.Or(c.Checker.Timeout, 2*time.Second)
}

func (c *Config) validate() error {
	problems := validateNames("Config", c.NameServers, c.Group, c.Topics, c.Credentials)
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"SendTimeout", c.SendTimeout},
		{"PrepareTimeout", c.PrepareTimeout},
		{"DrainTimeout", c.DrainTimeout},
		{"CommitTimeout", c.CommitTimeout},
		{"ResolveTimeout", c.ResolveTimeout},
	} {
		if field.value < 10*time.Millisecond {
			problems = append(problems, fmt.Errorf("rocketmq: Config.%s must be at least 10ms, got %s", field.name, field.value))
		}
	}
	if c.PrepareTimeout <= c.SendTimeout {
		problems = append(problems, fmt.Errorf("rocketmq: Config.PrepareTimeout must be longer than SendTimeout (%s), got %s", c.SendTimeout, c.PrepareTimeout))
	}
	if c.Tries < 1 || c.Tries > 16 {
		problems = append(problems, fmt.Errorf("rocketmq: Config.Tries must be between 1 and 16, got %d", c.Tries))
	}
	if c.MaxStoring < 1 {
		problems = append(problems, fmt.Errorf("rocketmq: Config.MaxStoring must be at least 1, got %d", c.MaxStoring))
	}
	if i := c.Immunity; i != 0 && (i < minImmunity || i > maxImmunity || i%time.Second != 0) {
		problems = append(problems, fmt.Errorf("rocketmq: Config.Immunity must be 0, or whole seconds between %s and %s, got %s", minImmunity, maxImmunity, i))
	}
	if c.HoldTimeout < c.PrepareTimeout || c.Immunity > 0 && c.HoldTimeout > c.Immunity-immunityEdge {
		problems = append(problems, fmt.Errorf("rocketmq: Config.HoldTimeout must be at least PrepareTimeout (%s) and, with Immunity, at most %s less than that, got %s",
			c.PrepareTimeout, immunityEdge, c.HoldTimeout))
	}
	return errors.Join(problems...)
}

var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

const maxNameBytes = 127

// validateNames checks what the configurations of messenger and subscriber share.
func validateNames(config string, nameServers []string, group string, topics []string, credentials Credentials) (problems []error) {
	add := func(field, rule string, value any) {
		problems = append(problems, fmt.Errorf("rocketmq: %s.%s %s, got %q", config, field, rule, value))
	}
	if len(nameServers) == 0 {
		add("NameServers", "must name at least one name server", nameServers)
	}
	for _, address := range nameServers {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			add("NameServers", "must be host:port each", address)
		}
	}
	if !validName(group) {
		add("Group", fmt.Sprintf("must be 1 to %d letters, digits, '-' and '_'", maxNameBytes), group)
	}
	if len(topics) == 0 {
		add("Topics", "must name at least one topic", topics)
	}
	for _, topic := range topics {
		if !validName(topic) {
			add("Topics", fmt.Sprintf("must be 1 to %d letters, digits, '-' and '_' each", maxNameBytes), topic)
		}
	}
	if (credentials.AccessKey == "") != (credentials.SecretKey == "") {
		problems = append(problems, fmt.Errorf("rocketmq: %s.Credentials must have both AccessKey and SecretKey, or neither", config))
	}
	return problems
}

func validName(name string) bool {
	return len(name) <= maxNameBytes && nameSyntax.MatchString(name)
}

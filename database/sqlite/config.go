package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config configures a DB; the zero value works.
type Config struct {
	// BusyTimeout is how long a transaction waits for another process that is writing. Defaults to 5 s.
	BusyTimeout time.Duration `yaml:"busy_timeout"`
	// Connections is the most connections of Pool; the writer has one of its own. Defaults to 8.
	Connections int `yaml:"connections"`
	// Pragmas are run on every connection, as in "foreign_keys(ON)". Those on which the promises rest are not taken:
	// journal_mode, synchronous, busy_timeout, locking_mode, query_only. Defaults to none.
	Pragmas []string `yaml:"pragmas"`
	// Logger gets what an operator should see. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

var (
	pragmaSyntax = regexp.MustCompile(`^(\w+)\([^;()]*\)$`)
	fixedPragmas = []string{"journal_mode", "synchronous", "busy_timeout", "locking_mode", "query_only"}
)

func (c *Config) setDefaults() {
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 5 * time.Second
	}
	if c.Connections == 0 {
		c.Connections = 8
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	var problems []error
	if c.BusyTimeout < time.Millisecond {
		problems = append(problems, fmt.Errorf("sqlite: Config.BusyTimeout must be at least 1ms, got %v", c.BusyTimeout))
	}
	if c.Connections < 1 {
		problems = append(problems, fmt.Errorf("sqlite: Config.Connections must be at least 1, got %d", c.Connections))
	}
	for i, pragma := range c.Pragmas {
		name := pragmaSyntax.FindStringSubmatch(pragma)
		if name == nil {
			problems = append(problems, fmt.Errorf("sqlite: Config.Pragmas[%d] must be a name with a value in parentheses, got %q", i, pragma))
		} else if slices.Contains(fixedPragmas, strings.ToLower(name[1])) {
			problems = append(problems, fmt.Errorf("sqlite: Config.Pragmas[%d] must be none of %s, got %q", i, strings.Join(fixedPragmas, ", "), pragma))
		}
	}
	return errors.Join(problems...)
}

// dsn returns the driver's name for the file at path. It is a URI, so that '?', '%' and '#' in a path are taken as they are.
func dsn(path string, cfg Config, synchronous string) string {
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		path = "/" + path
	}
	query := url.Values{
		"_busy_timeout": {strconv.FormatInt(cfg.BusyTimeout.Milliseconds(), 10)},
		"_journal_mode": {"WAL"},
		"_synchronous":  {synchronous},
		"_txlock":       {"immediate"},
		"_pragma":       cfg.Pragmas,
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

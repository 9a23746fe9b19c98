package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"

	"github.com/txmsg/txmsg-go/config"
)

// Config is the demo's own configuration; the messaging's sections stand beside it. Its file is demo.yaml.
type Config struct {
	// Listen is the address of the HTTP server, as host:port. Defaults to 127.0.0.1:8080.
	Listen string `yaml:"listen"`
	// DataDir holds the SQLite files and what the embedded NATS server stores. Defaults to .run/demo.
	DataDir string `yaml:"data_dir"`
	// Database is the URL of a PostgreSQL. Defaults to SQLite.
	Database string `yaml:"database"`
	// Name begins the names of topics, consumer groups and schemas. Defaults to demo.
	Name string `yaml:"name"`
	// Logger gets what the parts have to say. Defaults to discarding it.
	Logger *slog.Logger `yaml:"-"`
}

var nameSyntax = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

// Read takes the demo's settings from source.
func Read(source *config.Source) (Config, error) {
	cfg := Config{Listen: "127.0.0.1:8080", DataDir: ".run/demo", Name: "demo"}
	err := source.Decode(&cfg)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg, errors.Join(err, cfg.validate())
}

func (c Config) validate() error {
	var problems []error
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		problems = append(problems, fmt.Errorf("demo: listen must be host:port, got %q", c.Listen))
	}
	if c.DataDir == "" {
		problems = append(problems, errors.New("demo: data_dir must not be empty"))
	}
	if c.Database != "" && !strings.HasPrefix(c.Database, "postgres://") && !strings.HasPrefix(c.Database, "postgresql://") {
		problems = append(problems, errors.New("demo: database must be empty or a postgres:// URL"))
	}
	if !nameSyntax.MatchString(c.Name) {
		problems = append(problems, fmt.Errorf("demo: name must be 1 to 31 lower-case letters, digits and '_', got %q", c.Name))
	}
	return errors.Join(problems...)
}

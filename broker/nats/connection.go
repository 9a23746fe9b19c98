package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Auth authenticates this program to the servers: a credentials file, or user and password.
type Auth struct {
	// CredentialsFile holds a JWT and its key, as nsc writes it. Defaults to none.
	CredentialsFile string `yaml:"credentials_file"`
	// Username and Password default to none.
	Username string `yaml:"username"`
	Password string `yaml:"password"`
}

// LogValue keeps the password out of logs.
func (a Auth) LogValue() slog.Value {
	return slog.GroupValue(slog.String("credentials_file", a.CredentialsFile), slog.String("username", a.Username))
}

// TLS names the files for encrypted connections.
type TLS struct {
	// CAFile holds the PEM certificates that the servers' are checked against. Defaults to the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile hold this program's own PEM certificate and key. Default to none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// connection is what both directions need to reach the servers.
type connection struct {
	urls      []string
	inProcess nats.InProcessConnProvider
	name      string
	auth      Auth
	tls       TLS
	timeout   time.Duration
	logger    *slog.Logger
}

func (c connection) validate(config string) []error {
	var problems []error
	add := func(field, rule string, value any) {
		problems = append(problems, fmt.Errorf("nats: %s.%s %s, got %v", config, field, rule, value))
	}
	switch {
	case c.inProcess == nil && len(c.urls) == 0:
		add("URLs", "must name at least one server as nats://host:port", "none")
	case c.inProcess != nil && len(c.urls) > 0:
		add("URLs", "must be empty when InProcess is given", len(c.urls))
	}
	for i, address := range c.urls {
		if shown, ok := validURL(address); !ok {
			add(fmt.Sprintf("URLs[%d]", i), "must be nats://host:port or tls://host:port", strconv.Quote(shown))
		}
	}
	if c.auth.CredentialsFile != "" && c.auth.Username != "" {
		add("Auth", "must have a CredentialsFile or a Username, not both", strconv.Quote(c.auth.Username))
	}
	if (c.auth.Username == "") != (c.auth.Password == "") {
		add("Auth", "must have both Username and Password or neither", "one of them")
	}
	if (c.tls.CertFile == "") != (c.tls.KeyFile == "") {
		add("TLS", "must have both CertFile and KeyFile or neither", fmt.Sprintf("%q and %q", c.tls.CertFile, c.tls.KeyFile))
	}
	for _, file := range []struct{ field, name string }{
		{"Auth.CredentialsFile", c.auth.CredentialsFile},
		{"TLS.CAFile", c.tls.CAFile},
		{"TLS.CertFile", c.tls.CertFile},
		{"TLS.KeyFile", c.tls.KeyFile},
	} {
		if file.name == "" {
			continue
		}
		if _, err := os.Stat(file.name); err != nil {
			add(file.field, "must be a file that is there", err)
		}
	}
	return problems
}

// validURL returns address in a form to show, without a password.
func validURL(address string) (shown string, ok bool) {
	parsed, err := url.Parse(address)
	if err != nil {
		return address[strings.LastIndex(address, "@")+1:], false
	}
	port, err := strconv.ParseUint(parsed.Port(), 10, 16)
	ok = (parsed.Scheme == "nats" || parsed.Scheme == "tls") && parsed.Hostname() != "" && err == nil && port > 0
	return parsed.Redacted(), ok
}

const (
	reconnectWait = 250 * time.Millisecond
	pingInterval  = 5 * time.Second // a server that hangs is given up after three of them
	pings         = 2
)

// connect returns a connection that is kept up for ever. A server that is not there is no error.
func (c connection) connect(more ...nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(c.name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // else two refused log-ins end the connection for good
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1), // nothing is kept to be sent later, behind its publisher's back
		nats.Timeout(min(c.timeout, 5*time.Second)),
		nats.FlusherTimeout(c.timeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pings),
		nats.NoCallbacksAfterClientClose(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.logger.Warn("nats disconnected", "error", err) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub != nil {
				c.logger.Warn("nats client", "subject", sub.Subject, "error", err)
				return
			}
			c.logger.Warn("nats client", "error", err)
		}),
	}
	if c.inProcess != nil {
		options = append(options, nats.InProcessServer(c.inProcess))
	}
	if c.auth.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(c.auth.CredentialsFile))
	}
	if c.auth.Username != "" {
		options = append(options, nats.UserInfo(c.auth.Username, c.auth.Password))
	}
	if c.tls.CAFile != "" {
		options = append(options, nats.RootCAs(c.tls.CAFile))
	}
	if c.tls.CertFile != "" {
		options = append(options, nats.ClientCert(c.tls.CertFile, c.tls.KeyFile))
	}
	conn, err := nats.Connect(strings.Join(c.urls, ","), append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	return conn, nil
}

var (
	errClosed       = errors.New("the broker's client is closed")
	errNoAnswer     = errors.New("no answer in time")
	errNotConnected = errors.New("not connected to any server")
)

package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// TLS encrypts connections to the brokers.
type TLS struct {
	// Enabled turns TLS on. Defaults to false.
	Enabled bool `yaml:"enabled"`
	// CAFile holds the PEM certificates that the brokers' are checked against. Defaults to the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile hold this program's own PEM certificate and key. Default to none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the brokers' certificates must have. Defaults to the host that is dialled.
	ServerName string `yaml:"server_name"`
}

// SASL authenticates this program to the brokers.
type SASL struct {
	// Mechanism is "plain", "scram-sha-256" or "scram-sha-512". Defaults to no authentication.
	Mechanism string `yaml:"mechanism"`
	// Username and Password are required with a mechanism.
	Username string `yaml:"username"`
	Password string `yaml:"password"`
}

// LogValue keeps the password out of logs.
func (s SASL) LogValue() slog.Value {
	return slog.GroupValue(slog.String("mechanism", s.Mechanism), slog.String("username", s.Username))
}

// connection is what both directions need to reach the brokers.
type connection struct {
	brokers  []string
	clientID string
	tls      TLS
	sasl     SASL
	timeout  time.Duration
	logger   *slog.Logger
}

func (c connection) validate(config string) []error {
	var problems []error
	add := func(field, rule string, value any) {
		problems = append(problems, fmt.Errorf("kafka: %s.%s %s, got %v", config, field, rule, value))
	}
	if len(c.brokers) == 0 {
		add("Brokers", "must name at least one broker as host:port", "none")
	}
	for i, address := range c.brokers {
		if !validAddress(address) {
			add(fmt.Sprintf("Brokers[%d]", i), "must be host:port", strconv.Quote(address))
		}
	}
	if (c.tls.CertFile == "") != (c.tls.KeyFile == "") {
		add("TLS", "must have both CertFile and KeyFile or neither", fmt.Sprintf("%q and %q", c.tls.CertFile, c.tls.KeyFile))
	}
	if !c.tls.Enabled && c.tls != (TLS{}) {
		add("TLS.Enabled", "must be true when other TLS fields are set", false)
	}
	switch c.sasl.Mechanism {
	case "":
		if c.sasl != (SASL{}) {
			add("SASL.Mechanism", "must be plain, scram-sha-256 or scram-sha-512 when a user is given", `""`)
		}
	case "plain", "scram-sha-256", "scram-sha-512":
		if c.sasl.Username == "" || c.sasl.Password == "" {
			add("SASL", "must have Username and Password with a mechanism", "an empty one")
		}
	default:
		add("SASL.Mechanism", "must be plain, scram-sha-256 or scram-sha-512", strconv.Quote(c.sasl.Mechanism))
	}
	return problems
}

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// options reads the TLS files, so it belongs to opening and not to each new client.
func (c connection) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(c.brokers...),
		kgo.ClientID(c.clientID),
		kgo.DialTimeout(c.timeout),
		// The client may ask often for topics that are about to be created.
		kgo.MetadataMinAge(metadataMinAge),
		kgo.WithLogger(clientLogger{c.logger}),
		kgo.DisableClientMetrics(),
	}
	if c.tls.Enabled {
		config, err := c.tls.config()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if c.sasl.Mechanism != "" {
		options = append(options, kgo.SASL(c.sasl.mechanism()))
	}
	return options, nil
}

const metadataMinAge = 250 * time.Millisecond

func (t TLS) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("kafka: read TLS.CAFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("kafka: TLS.CAFile must hold PEM certificates, got none in " + t.CAFile)
		}
	}
	if t.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("kafka: read TLS.CertFile and TLS.KeyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

func (s SASL) mechanism() sasl.Mechanism {
	switch s.Mechanism {
	case "scram-sha-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()
	case "scram-sha-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()
	}
}

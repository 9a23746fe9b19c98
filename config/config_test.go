package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

// load writes text to a file and loads it with the prefix SHOP and the variables env.
func load(t *testing.T, text string, env map[string]string) *Source {
	t.Helper()
	source, err := tryLoad(t, text, env)
	require.NoError(t, err)
	return source
}

func tryLoad(t *testing.T, text string, env map[string]string) (*Source, error) {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	path := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return Load(path, "SHOP")
}

type level string

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "low" && string(text) != "high" {
		return fmt.Errorf("must be low or high, got %q", text)
	}
	*l = level(text)
	return nil
}

type tls struct {
	CAFile string `yaml:"ca_file"`
	Verify bool   `yaml:"verify"`
}

type route struct {
	Topic string `yaml:"topic" config:"required"`
	Limit int    `yaml:"limit"`
}

type section struct {
	Name      string            `yaml:"name"`
	BatchSize int               `yaml:"batch_size"`
	Small     int8              `yaml:"small"`
	Ratio     float64           `yaml:"ratio"`
	Poll      time.Duration     `yaml:"poll_interval"`
	Retention *time.Duration    `yaml:"retention"`
	On        bool              `yaml:"on"`
	Topics    []string          `yaml:"topics"`
	Sizes     []int             `yaml:"sizes"`
	Labels    map[string]string `yaml:"labels"`
	Level     level             `yaml:"level"`
	TLS       tls               `yaml:"tls"`
	Proxy     *tls              `yaml:"proxy"`
	Routes    []route           `yaml:"routes"`
	Own       func()            `yaml:"-"`
	Logger    *slog.Logger      `yaml:"-"`
}

const full = `
backend: localtable/nats
localtable:
  name: "7"
  batch_size: 200
  small: -8
  ratio: 0.5
  poll_interval: 1.5s
  retention: 0
  on: true
  topics: [a, "b,c"]
  sizes: [1, 2]
  labels: {a: b}
  level: high
  tls: {ca_file: /ca, verify: true}
  proxy: {ca_file: /proxy}
  routes:
  - {topic: t, limit: 5}
`

func TestSectionReadsEveryKind(t *testing.T) {
	source := load(t, full, nil)
	require.Equal(t, "localtable/nats", source.Backend())
	var got section
	require.NoError(t, source.Section("localtable", &got))
	require.Equal(t, section{
		Name: "7", BatchSize: 200, Small: -8, Ratio: 0.5, Poll: 1500 * time.Millisecond, Retention: new(time.Duration), On: true,
		Topics: []string{"a", "b,c"}, Sizes: []int{1, 2}, Labels: map[string]string{"a": "b"}, Level: "high",
		TLS: tls{"/ca", true}, Proxy: &tls{CAFile: "/proxy"}, Routes: []route{{"t", 5}},
	}, got)
}

func TestEnvironmentOverrides(t *testing.T) {
	source := load(t, full, map[string]string{
		"SHOP_BACKEND":                  "rocketmq",
		"SHOP_LOCALTABLE_NAME":          "true # not YAML",
		"SHOP_LOCALTABLE_BATCH_SIZE":    "300",
		"SHOP_LOCALTABLE_POLL_INTERVAL": "2m",
		"SHOP_LOCALTABLE_RETENTION":     "1h",
		"SHOP_LOCALTABLE_ON":            "false",
		"SHOP_LOCALTABLE_TOPICS":        "x, y,null",
		"SHOP_LOCALTABLE_SIZES":         "[3, 4]",
		"SHOP_LOCALTABLE_LABELS":        "{c: d}",
		"SHOP_LOCALTABLE_LEVEL":         "low",
		"SHOP_LOCALTABLE_TLS_CA_FILE":   "",
		"SHOP_LOCALTABLE_PROXY_VERIFY":  "true",
		"SHOP_LOCALTABLE_ROUTES":        "[{topic: u}]",
		"SHOP_TEST_KAFKA":               "exempt",
		"SHOPPING_LIST":                 "not ours",
	})
	require.Equal(t, "rocketmq", source.Backend())
	var got section
	require.NoError(t, source.Section("localtable", &got))
	hour := time.Hour
	require.Equal(t, section{
		Name: "true # not YAML", BatchSize: 300, Small: -8, Ratio: 0.5, Poll: 2 * time.Minute, Retention: &hour,
		Topics: []string{"x", "y", "null"}, Sizes: []int{3, 4}, Labels: map[string]string{"c": "d"}, Level: "low",
		TLS: tls{"", true}, Proxy: &tls{"/proxy", true}, Routes: []route{{"u", 0}},
	}, got)
	require.Empty(t, source.Unknown("localtable"))
}

func TestEnvironmentAlone(t *testing.T) {
	t.Setenv("SHOP_NATS_NAME", "x")
	t.Setenv("SHOP_NATS_PROXY_CA_FILE", "/p")
	source, err := Load("", "SHOP")
	require.NoError(t, err)
	var got section
	require.NoError(t, source.Section("nats", &got))
	require.Equal(t, section{Name: "x", Proxy: &tls{CAFile: "/p"}}, got)

	source, err = Load("", "")
	require.NoError(t, err)
	got = section{}
	require.NoError(t, source.Section("nats", &got))
	require.Equal(t, section{}, got)
	require.Empty(t, source.Unknown())
}

func TestWhatIsNotSetKeepsItsValue(t *testing.T) {
	source := load(t, "localtable: {batch_size: 1}\nempty:\n", nil)
	got := section{Name: "default", BatchSize: 500, Topics: []string{"t"}, Proxy: &tls{CAFile: "/p"}}
	want := got
	want.BatchSize = 1
	require.NoError(t, source.Section("localtable", &got))
	require.Equal(t, want, got)
	for _, name := range []string{"missing", "empty"} {
		require.NoError(t, source.Section(name, &got), name)
		require.Equal(t, want, got)
	}
}

func TestValuesOfTheWrongKindAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"name: [a]":             "s.name must be a text, got a list",
		"name: {a: b}":          "s.name must be a text, got a mapping",
		"name:":                 "s.name has no value: it must be a text",
		"name: ~":               "s.name has no value",
		"batch_size: ten":       `s.batch_size must be a whole number that fits in int, got "ten"`,
		"batch_size: 1.5":       `s.batch_size must be a whole number that fits in int, got "1.5"`,
		`batch_size: "10"`:      `s.batch_size must be a whole number that fits in int, got "10"`,
		"batch_size: 1e400":     "s.batch_size must be a whole number",
		"batch_size: true":      "s.batch_size must be a whole number",
		"small: 128":            `s.small must be a whole number that fits in int8, got "128"`,
		"ratio: half":           `s.ratio must be a number, got "half"`,
		"poll_interval: 5":      `s.poll_interval must be a duration such as 1.5s or 2h30m, got "5"`,
		"poll_interval: 1 week": "s.poll_interval must be a duration",
		"poll_interval: [1s]":   "s.poll_interval must be a duration such as 1.5s or 2h30m, got a list",
		"retention: forever":    "s.retention must be a duration",
		"retention: null":       "s.retention has no value: it must be a duration",
		"on: yes":               `s.on must be true or false, got "yes"`,
		"on: 1":                 `s.on must be true or false, got "1"`,
		"topics: a":             `s.topics must be a list, got "a"`,
		"topics: [a, [b]]":      "s.topics[1] must be a text, got a list",
		"sizes: [1, two]":       `s.sizes[1] must be a whole number that fits in int, got "two"`,
		"labels: [a]":           "s.labels must be a mapping, got a list",
		"labels: {a: {b: c}}":   "s.labels.a must be a text, got a mapping",
		"level: middle":         `s.level is refused: must be low or high, got "middle"`,
		"tls: true":             `s.tls must be a mapping with ca_file, verify, got "true"`,
		"tls: {verify: maybe}":  `s.tls.verify must be true or false, got "maybe"`,
		"routes: [{topics: a}]": "s.routes[0].topics is unknown, there are limit, topic",
		"proxy: {ca: x}":        "s.proxy.ca is unknown, there are ca_file, verify",
		"bach_size: 1":          "s.bach_size is unknown, there are batch_size, labels, level, name, on, poll_interval, proxy, ratio, retention, routes, sizes, small, tls, topics",
		"Name: x":               "s.Name is unknown",
		"own: x":                "s.own is unknown",
		"<<: {name: x}":         "s.<< is unknown",
	} {
		t.Run(text, func(t *testing.T) {
			source := load(t, "s:\n  "+text+"\n", nil)
			err := source.Section("s", &section{})
			require.ErrorContains(t, err, "config: "+want)
			require.ErrorContains(t, err, "(shop.yaml line 2)")
		})
	}
	t.Run("a required one in a list", func(t *testing.T) {
		require.EqualError(t, load(t, "s: {routes: [{limit: 1}]}", nil).Section("s", &section{}), "config: s.routes[0].topic is required")
	})
	t.Run("a section that is none", func(t *testing.T) {
		require.ErrorContains(t, load(t, "s: 5", nil).Section("s", &tls{}), `config: s must be a mapping with ca_file, verify, got "5" (shop.yaml line 1)`)
	})
	t.Run("a target that is none", func(t *testing.T) {
		source := load(t, "", nil)
		require.ErrorContains(t, source.Section("s", tls{}), "a pointer to a struct is needed, got config.tls")
		require.ErrorContains(t, source.Decode(nil), "a pointer to a struct is needed, got <nil>")
	})
}

func TestVariablesOfTheWrongKindAreRefused(t *testing.T) {
	for variable, want := range map[string]string{
		"SHOP_S_BATCH_SIZE=ten":   `SHOP_S_BATCH_SIZE must be a whole number that fits in int, got "ten" (environment)`,
		"SHOP_S_BATCH_SIZE=":      "SHOP_S_BATCH_SIZE has no value: it must be a whole number",
		"SHOP_S_BATCH_SIZE=null":  "SHOP_S_BATCH_SIZE has no value",
		"SHOP_S_ON=yes":           `SHOP_S_ON must be true or false, got "yes"`,
		"SHOP_S_POLL_INTERVAL=5":  "SHOP_S_POLL_INTERVAL must be a duration",
		"SHOP_S_SIZES=1,two":      `SHOP_S_SIZES[1] must be a whole number that fits in int, got "two" (environment)`,
		"SHOP_S_SIZES=[1":         `SHOP_S_SIZES must be YAML, got "[1" (environment)`,
		"SHOP_S_LABELS=a":         "SHOP_S_LABELS must be a mapping",
		"SHOP_S_LEVEL=middle":     "SHOP_S_LEVEL is refused: must be low or high",
		"SHOP_S_BATCH=1":          "SHOP_S_BATCH is unknown (environment), there are SHOP_S_BATCH_SIZE, SHOP_S_LABELS,",
		"SHOP_S_TLS_CERT=x":       "SHOP_S_TLS_CERT is unknown (environment)",
		"SHOP_S_TLS=x":            "SHOP_S_TLS is unknown (environment)",
		"SHOP_S_ROUTES_0_TOPIC=x": "SHOP_S_ROUTES_0_TOPIC is unknown (environment)",
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			source := load(t, "", map[string]string{name: value})
			require.ErrorContains(t, source.Section("s", &section{}), "config: "+want)
		})
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	source := load(t, "s: {bach_size: 1, on: maybe, tls: {cert: x, verify: 2}}", map[string]string{"SHOP_S_SMALL": "1000", "SHOP_S_TYPO": "x"})
	err := source.Section("s", &section{})
	for _, name := range []string{"s.bach_size", "s.on", "s.tls.cert", "s.tls.verify", "SHOP_S_SMALL", "SHOP_S_TYPO"} {
		require.ErrorContains(t, err, "config: "+name+" ")
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 6)
}

func TestFilesThatAreNotAConfigurationAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                "config: shop.yaml: yaml",
		"- a":                 "must be a mapping",
		"a":                   "must be a mapping",
		"a: 1\n---\nb: 1":     "must hold one document",
		"a: 1\na: 2":          "config: a is set twice (shop.yaml lines 1 and 2)",
		"s:\n  a: 1\n  a: 2":  "config: s.a is set twice (shop.yaml lines 2 and 3)",
		"s: [{a: 1, a: 2}]":   "config: s[0].a is set twice",
		"backend: [rocketmq]": "config: backend must be a text",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := tryLoad(t, text, nil)
			require.ErrorContains(t, err, want)
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "missing.yaml"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, text := range []string{"", "# nothing\n", "---\n", "~"} {
		require.Empty(t, load(t, text, nil).Backend())
	}
}

type checked struct {
	Min  int   `yaml:"min"`
	Max  int   `yaml:"max"`
	Next *next `yaml:"next"`
}

func (c *checked) Validate() error {
	var problems []error
	if c.Min > c.Max {
		problems = append(problems, fmt.Errorf("min must be at most max %d, got %d", c.Max, c.Min))
	}
	if c.Max == 0 {
		problems = append(problems, errors.New("max must not be 0"))
	}
	return errors.Join(problems...)
}

type next struct {
	Even int `yaml:"even"`
}

var errOdd = errors.New("even must be even")

func (n next) Validate() error {
	if n.Even%2 != 0 {
		return fmt.Errorf("rule 1: %w", errOdd)
	}
	return nil
}

func TestValidateIsAsked(t *testing.T) {
	source := load(t, "s: {min: 5}\nn: {max: 1, next: {even: 3}}\nwrong: {min: five}", nil)
	require.EqualError(t, source.Section("s", &checked{}), "config: s: min must be at most max 0, got 5\nconfig: s: max must not be 0")
	err := source.Section("n", &checked{})
	require.EqualError(t, err, "config: n.next: rule 1: even must be even")
	require.ErrorIs(t, err, errOdd)
	require.EqualError(t, source.Section("wrong", &checked{}), `config: wrong.min must be a whole number that fits in int, got "five" (shop.yaml line 3)`)
}

type own struct {
	Listen   string        `yaml:"listen" config:"required"`
	Database string        `yaml:"database" config:"required"`
	Workers  int           `yaml:"workers" config:"required"`
	Timeout  time.Duration `yaml:"timeout"`
	Consumer struct {
		Name string `yaml:"name" config:"required"`
	} `yaml:"consumer"`
	Optional *route `yaml:"optional"`
	embedded `yaml:",inline"`
	Shared   `yaml:",inline"`
}

type embedded struct{ Hidden string }

// Shared is inlined.
type Shared struct {
	Region string
}

func TestDecodeReadsTheProgramsOwnSettings(t *testing.T) {
	source := load(t, `
listen: :8080
database: sqlite
workers: 0
consumer: {name: shop}
region: eu
backend: localtable/nats
nats: {anything: goes}
`, map[string]string{"SHOP_DATABASE": "postgres://", "SHOP_NATS_URL": "x"})
	got := own{Timeout: time.Second}
	require.NoError(t, source.Decode(&got))
	want := own{Listen: ":8080", Database: "postgres://", Timeout: time.Second, Shared: Shared{Region: "eu"}}
	want.Consumer.Name = "shop"
	require.Equal(t, want, got)
	require.Empty(t, source.Unknown("nats", "localtable"))
	require.Equal(t, []string{"nats (shop.yaml line 8)", "SHOP_NATS_URL (environment)"}, source.Unknown())
}

func TestDecodeNamesWhatIsMissing(t *testing.T) {
	source := load(t, "listen: \"\"\ntimeout: 5", nil)
	err := source.Decode(&own{})
	for _, text := range []string{
		"config: listen is required, in the file or as SHOP_LISTEN (shop.yaml line 1)", "config: database is required, in the file or as SHOP_DATABASE",
		"config: workers is required", "config: consumer.name is required", "config: timeout must be a duration",
	} {
		require.ErrorContains(t, err, text)
	}
	require.NotContains(t, err.Error(), "optional")
	source = load(t, "", map[string]string{"SHOP_OPTIONAL_LIMIT": "1", "SHOP_CONSUMER_NAMES": "x"})
	err = source.Decode(&own{})
	require.ErrorContains(t, err, "config: optional.topic is required")
	require.ErrorContains(t, err, "config: SHOP_CONSUMER_NAMES is unknown (environment), there are SHOP_CONSUMER_NAME")
}

func TestUnknownNamesWhatBelongsToNobody(t *testing.T) {
	source := load(t, "bakend: rocketmq\nlisten: :1\nnats: {}\nconsumer: {}\n", map[string]string{
		"SHOP_BAKEND": "x", "SHOP_LISTEN": ":2", "SHOP_NATS_URL": "x", "SHOP_NAT_URL": "x", "SHOP_CONSUMER_NAME": "x",
	})
	require.NoError(t, source.Section("consumer", &struct {
		Name string `yaml:"name"`
	}{}))
	require.NoError(t, source.Decode(&struct {
		Listen string `yaml:"listen"`
	}{}))
	require.Equal(t, []string{"bakend (shop.yaml line 1)", "SHOP_BAKEND (environment)", "SHOP_NAT_URL (environment)"}, source.Unknown("nats", "kafka"))
}

func TestAFieldOfTheProgramMayLookLikeOneOfASection(t *testing.T) {
	source := load(t, "", map[string]string{"SHOP_NATS_URL": "x", "SHOP_NATS_NAME": "y"})
	var program struct {
		URL string `yaml:"nats_url"`
	}
	require.NoError(t, source.Decode(&program))
	require.Equal(t, "x", program.URL)
	require.NoError(t, source.Section("nats", &section{}))
}

func TestLoggerIsGivenToStructsWithoutOne(t *testing.T) {
	type inner struct {
		Logger *slog.Logger `yaml:"-"`
	}
	var got struct {
		Logger *slog.Logger `yaml:"-"`
		Inner  inner        `yaml:"inner"`
		Items  []inner      `yaml:"items"`
	}
	source := load(t, "s: {items: [{}]}", nil)
	require.NoError(t, source.Section("s", &got))
	require.Nil(t, got.Logger)

	source.Logger = slog.New(slog.DiscardHandler)
	mine := slog.New(slog.DiscardHandler)
	got.Inner.Logger = mine
	require.NoError(t, source.Section("s", &got))
	require.Same(t, source.Logger, got.Logger)
	require.Same(t, mine, got.Inner.Logger)
	require.Same(t, source.Logger, got.Items[0].Logger)

	type Embedded inner
	var outer struct {
		Embedded `yaml:",inline"`
		Name     string `yaml:"name"`
	}
	require.NoError(t, source.Section("outer", &outer))
	require.Same(t, source.Logger, outer.Logger)
}

func TestAliasesAreFollowed(t *testing.T) {
	source := load(t, "a: &a {ca_file: /x}\ntls: *a\ns: {name: &n hello, topics: [*n], tls: *a}", nil)
	var got section
	require.NoError(t, source.Section("s", &got))
	require.Equal(t, section{Name: "hello", Topics: []string{"hello"}, TLS: tls{CAFile: "/x"}}, got)
	var top tls
	require.NoError(t, source.Section("tls", &top))
	require.Equal(t, "/x", top.CAFile)
}

func TestBackendsOpenOnASource(t *testing.T) {
	opened := false
	backends := txmsg.Backends[int]{"localtable/nats": func(_ string, settings txmsg.Settings) (func(context.Context) (txmsg.Messenger[int], error), error) {
		return func(context.Context) (txmsg.Messenger[int], error) {
			opened = true
			return nil, nil
		}, settings.Section("localtable", &section{})
	}}
	for name, c := range map[string]struct {
		text, want string
		env        map[string]string
	}{
		"C60 an unknown backend":        {text: "backend: rocketmqq", want: `got "rocketmqq"`},
		"C60 an empty backend":          {text: `backend: ""`, want: `got ""`},
		"C60 no backend":                {want: `got ""`},
		"C60 another case":              {text: "backend: Localtable/Nats", want: `got "Localtable/Nats"`},
		"C60 an unknown key":            {text: "backend: localtable/nats\nbakend: x", want: "unknown setting bakend (shop.yaml line 2)"},
		"C60 an unknown override":       {text: "backend: localtable/nats", env: map[string]string{"SHOP_BAKEND": "x"}, want: "unknown setting SHOP_BAKEND (environment)"},
		"C60 an override of no section": {text: "backend: localtable/nats", env: map[string]string{"SHOP_LOCALTABEL_NAME": "x"}, want: "SHOP_LOCALTABEL_NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backends.Open(t.Context(), load(t, c.text, c.env))
			require.ErrorContains(t, err, c.want)
			require.False(t, opened, "something was opened")
		})
	}
	_, err := backends.Open(t.Context(), load(t, full, nil))
	require.NoError(t, err)
	require.True(t, opened)
}

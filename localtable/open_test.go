package localtable_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/config"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// siteConfig is the configuration of one kind of broker, kiteConfig that of another.
type (
	siteConfig struct {
		Address string       `yaml:"address" config:"required"`
		Logger  *slog.Logger `yaml:"-"`
	}
	kiteConfig struct {
		String string `yaml:"string" config:"required"`
	}
)

// yard is a program that can run routes to two kinds of broker, or another backend altogether.
type yard struct {
	memory *storetest.Memory
	sites  map[string]*broker // by address
	kites  map[string]*broker // by string
	logger *slog.Logger       // that the sites got
	other  bool               // the other backend was opened
	fails  error              // of the kites
	log    logBook
}

func newYard() *yard {
	return &yard{memory: storetest.NewMemory(localtable.Lanes), sites: map[string]*broker{}, kites: map[string]*broker{}}
}

func (y *yard) open(t *testing.T, text string) (txmsg.Messenger[*storetest.Tx], error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	source, err := config.Load(path, "SHOP")
	require.NoError(t, err)
	source.Logger = slog.New(&y.log)
	return txmsg.Backends[*storetest.Tx]{
		"localtable": localtable.OnRoutes(y.memory, localtable.Brokers{
			"site": localtable.Opening(func(_ context.Context, cfg siteConfig) (*broker, error) {
				y.logger = cfg.Logger
				y.sites[cfg.Address] = newBroker()
				return y.sites[cfg.Address], nil
			}),
			"kite": localtable.Opening(func(_ context.Context, cfg kiteConfig) (*broker, error) {
				if y.fails != nil {
					return nil, y.fails
				}
				y.kites[cfg.String] = newBroker()
				return y.kites[cfg.String], nil
			}),
		}),
		"other": func(_ string, settings txmsg.Settings) (func(context.Context) (txmsg.Messenger[*storetest.Tx], error), error) {
			var cfg struct {
				Needed string `yaml:"needed" config:"required"`
			}
			return func(context.Context) (txmsg.Messenger[*storetest.Tx], error) {
				y.other = true
				return nil, nil
			}, settings.Section("other", &cfg)
		},
	}.Open(t.Context(), source)
}

const yardText = `
backend: localtable
localtable:
  batch_size: 7
  topics: [orders.new]
  routes:
  - {destination: east, broker: site, topics: [orders, "orders.*"], concurrency: 2}
  - {destination: kite-1, broker: kite, topics: [bills]}
  - {destination: west, broker: site, topics: ["rest*"]}
east: {address: in the east}
west: {address: in the west}
kite-1: {string: long}
`

func TestOnRoutes(t *testing.T) {
	t.Run("each destination's broker is configured by the section of its name", func(t *testing.T) {
		y := newYard()
		m, err := y.open(t, yardText)
		require.NoError(t, err)
		require.NotNil(t, y.logger)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		for _, topic := range []string{"orders.new", "bills", "rest"} {
			msg := of("k", topic)[0]
			msg.Topic = topic
			require.NoError(t, publish(t.Context(), m.(*messenger), msg))
		}
		require.Eventually(t, func() bool {
			return y.sites["in the east"].distinct()+y.sites["in the west"].distinct()+y.kites["long"].distinct() == 3
		}, 10*time.Second, time.Millisecond)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, []string{"orders.new"}, y.sites["in the east"].ids())
		require.Equal(t, []string{"bills"}, y.kites["long"].ids())
		require.Equal(t, []string{"rest"}, y.sites["in the west"].ids())
		require.NotZero(t, y.log.with("lanes taken"), "the relay has the program's logger")
	})

	t.Run("sections of routes are known when another backend is picked", func(t *testing.T) {
		y := newYard()
		_, err := y.open(t, strings.Replace(yardText, "backend: localtable", "backend: other\nother: {needed: x}", 1))
		require.NoError(t, err)
		require.True(t, y.other)
		_, err = y.open(t, strings.Replace(yardText, "backend: localtable", "backend: other\nother: {needed: x}\nsouth: {}", 1))
		require.ErrorContains(t, err, "unknown setting south (shop.yaml line 4), there are the sections east, kite-1, localtable, other, west")
	})

	for name, c := range map[string]struct {
		from, to string // in yardText
		want     []string
	}{
		"C60 a section of no destination":    {"west: {", "vest: {", []string{"unknown setting vest (shop.yaml line 11)", "config: west.address is required"}},
		"C60 an unknown broker":              {"broker: kite,", "broker: kitten,", []string{`localtable: broker of destination kite-1 must be one of kite, site, got "kitten"`}},
		"C60 the configuration of another":   {"{string: long}", "{address: long}", []string{"kite-1.address is unknown", "kite-1.string is required"}},
		"C60 a route without what it needs":  {"{destination: kite-1, broker: kite, topics: [bills]}", "{}", []string{"localtable.routes[1].destination is required", "localtable.routes[1].broker is required", "localtable.routes[1].topics is required", "unknown setting kite-1"}},
		"C60 an unknown field of a route":    {"concurrency: 2", "concurency: 2", []string{"localtable.routes[0].concurency is unknown, there are broker, concurrency, destination, topics"}},
		"C60 an unknown field beside routes": {"batch_size", "bach_size", []string{"localtable.bach_size is unknown"}},
		"C60 a pattern that is none":         {`"orders.*"`, `"["`, []string{"Route[0].Topics[1] must be a topic or a pattern of topics"}},
		"C60 a topic that no route takes":    {"topics: [orders.new]", "topics: [order]", []string{`localtable: Config.Topics[0]: txmsg: Message.Topic must be one that a route takes: east (orders, orders.*), kite-1 (bills), west (rest*), got "order"`}},
		"C60 a field that is out of bounds":  {"batch_size: 7", "batch_size: -7", []string{"localtable: Config.BatchSize must be between 1 and 10000, got -7"}},
		"C60 a destination of all":           {"batch_size: 7", "destination: x", []string{`Config.Destination must be empty where there are routes, got "x"`}},
		"C60 a destination like the section": {"destination: kite-1", "destination: localtable", []string{`the destination of a route must be another than "localtable"`, "unknown setting kite-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard()
			require.Equal(t, 1, strings.Count(yardText, c.from))
			_, err := y.open(t, strings.Replace(yardText, c.from, c.to, 1))
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.want), "%v", err)
			require.Empty(t, y.sites, "something was opened")
		})
	}

	t.Run("C60 no routes", func(t *testing.T) {
		_, err := newYard().open(t, "backend: localtable")
		require.ErrorContains(t, err, "config: localtable.routes is required")
	})

	t.Run("an override that belongs to no section is refused", func(t *testing.T) {
		t.Setenv("SHOP_EAST_ADDRESS", "over there")
		t.Setenv("SHOP_KITE_1_STRNG", "x")
		y := newYard()
		_, err := y.open(t, yardText)
		require.ErrorContains(t, err, "SHOP_KITE_1_STRNG is unknown (environment), there are SHOP_KITE_1_STRING")
		t.Setenv("SHOP_KITE_1_STRNG", "")
		require.NoError(t, os.Unsetenv("SHOP_KITE_1_STRNG"))
		_, err = y.open(t, yardText)
		require.NoError(t, err)
		require.Contains(t, y.sites, "over there")
	})

	t.Run("what was opened is closed when another does not open", func(t *testing.T) {
		y := newYard()
		y.fails = errors.New("no wind")
		m, err := y.open(t, yardText)
		require.ErrorIs(t, err, y.fails)
		require.ErrorContains(t, err, "localtable: route kite-1 (bills): no wind")
		require.True(t, m == nil)
		require.Len(t, y.sites, 2)
		for _, b := range y.sites {
			require.True(t, b.closed)
		}
	})
}

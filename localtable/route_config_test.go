package localtable_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

func TestRoutesConfig(t *testing.T) {
	b := newBroker()
	route := func(destination string, topics ...string) localtable.Route {
		return localtable.Route{Destination: destination, Topics: topics, Broker: b}
	}
	for name, c := range map[string]struct {
		routes []localtable.Route
		cfg    localtable.Config
		want   []string
	}{
		"no routes":                     {nil, localtable.Config{}, []string{"localtable: routes must be one or more, got none"}},
		"a destination of the config":   {[]localtable.Route{route("a", "*")}, localtable.Config{Destination: "x"}, []string{`Config.Destination must be empty where there are routes, got "x"`}},
		"a destination twice":           {[]localtable.Route{route("a", "x"), route("a", "y")}, localtable.Config{}, []string{`Route[1].Destination must be another than those of the routes before, got "a"`}},
		"a destination with no name":    {[]localtable.Route{route("", "x")}, localtable.Config{}, []string{`Route[0].Destination must be a name`}},
		"a destination with a bad name": {[]localtable.Route{route("a b", "x")}, localtable.Config{}, []string{`Route[0].Destination must be a name of letters, digits, '-', '_' and single '.' inside, got "a b"`}},
		"no topics":                     {[]localtable.Route{route("a")}, localtable.Config{}, []string{"Route[0].Topics must be one pattern or more, got none"}},
		"patterns that are none": {
			[]localtable.Route{route("a", "x", "", "[", "a/*", "a b", "x.")},
			localtable.Config{},
			[]string{`Route[0].Topics[1] must be a topic or a pattern of topics, got ""`, `Topics[2]`, `Topics[3]`, `Topics[4]`, `Topics[5]`},
		},
		"the same pattern":              {[]localtable.Route{route("a", "x.*"), route("b", "x.*")}, localtable.Config{}, []string{`Route[1].Topics[0] must be before "x.*", which takes all its topics, got "x.*"`}},
		"after the one that takes all":  {[]localtable.Route{route("a", "*"), route("b", "x[ab]", "y?")}, localtable.Config{}, []string{`Route[1].Topics[0] must be before "*"`, `Route[1].Topics[1] must be before "*"`}},
		"behind a wider one":            {[]localtable.Route{route("a", "x*"), route("b", "xy*z")}, localtable.Config{}, []string{`Route[1].Topics[0] must be before "x*"`}},
		"a topic behind a pattern":      {[]localtable.Route{route("a", "x[yz]"), route("b", "xy")}, localtable.Config{}, []string{`Route[1].Topics[0] must be before "x[yz]"`}},
		"a concurrency that is none":    {[]localtable.Route{{Destination: "a", Topics: []string{"x"}, Broker: b, Concurrency: 65}}, localtable.Config{}, []string{"Route[0].Concurrency must be between 1 and 64, or 0 for the default, got 65"}},
		"no broker":                     {[]localtable.Route{{Destination: "a", Topics: []string{"x"}}}, localtable.Config{}, []string{"Route[0].Broker must be set, got nil"}},
		"a topic that nobody takes":     {[]localtable.Route{route("a", "x")}, localtable.Config{Topics: []string{"x", "y"}}, []string{`localtable: Config.Topics[1]: txmsg: Message.Topic must be one that a route takes: a (x), got "y"`}},
		"all problems at the same time": {[]localtable.Route{route("a", "x"), route("a")}, localtable.Config{Destination: "x", BatchSize: -1}, []string{"Config.Destination", "Route[1].Destination", "Route[1].Topics", "Config.BatchSize"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := localtable.NewRouted(storetest.NewMemory(1), c.routes, c.cfg)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.want))
		})
	}
	t.Run("patterns that only look as if they were shadowed", func(t *testing.T) {
		_, err := localtable.NewRouted(storetest.NewMemory(1), []localtable.Route{
			route("a", "x?", "y[ab]", "z*z"), route("b", "x*", "y[a-c]", "y?", "z*"), route("c", "*"),
		}, localtable.Config{})
		require.NoError(t, err)
	})
}

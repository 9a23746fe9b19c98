package localtable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Brokers are those that routes can name.
type Brokers map[string]BrokerOpener

// routedConfig is the section of a backend with routes.
type routedConfig struct {
	Config `yaml:",inline"`
	Routes []routeConfig `yaml:"routes" config:"required"`
}

// routeConfig is a route as configuration has it.
type routeConfig struct {
	Destination string   `yaml:"destination" config:"required"` // and the section of its broker's configuration
	Broker      string   `yaml:"broker" config:"required"`      // a key of Brokers
	Topics      []string `yaml:"topics" config:"required"`
	Concurrency int      `yaml:"concurrency"`
}

// OnRoutes makes a backend of a store and brokers, whose configuration divides the topics among destinations. The backend's
// name is that of its section, "localtable", which has what [Config] has, and routes:
//
//	localtable:
//	  routes:
//	  - {destination: main, broker: kafka, topics: [orders, "orders.*"]}
//	  - {destination: reports, broker: nats, topics: ["*"], concurrency: 1}
//	main: {brokers: ["kafka-1:9092"]}
//	reports: {urls: ["nats://nats-1:4222"]}
//
// A route's broker is a key of brokers; the section that has the name of the destination is the configuration of that broker. See [Route]
// for the rest.
func OnRoutes[Tx any](store Store[Tx], brokers Brokers) txmsg.Opener[Tx] {
	return func(name string, settings txmsg.Settings) (func(context.Context) (txmsg.Messenger[Tx], error), error) {
		var cfg routedConfig
		problems := []error{settings.Section(name, &cfg)}
		routes := make([]Route, len(cfg.Routes))
		opens := make([]func(context.Context) (Broker, error), len(cfg.Routes))
		for i, route := range cfg.Routes {
			routes[i] = Route{Destination: route.Destination, Topics: route.Topics, Concurrency: route.Concurrency}
			open, err := brokers.read(route, name, settings)
			opens[i], problems = open, append(problems, err)
		}
		if problems[0] == nil { // else what is missing would be named twice
			problems = append(problems, validateRoutes(routes, cfg.Config), cfg.check())
		}
		if err := errors.Join(problems...); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (txmsg.Messenger[Tx], error) {
			return openRoutes(ctx, store, routes, opens, cfg.Config)
		}, nil
	}
}

// read reads the section of a route's broker.
func (b Brokers) read(route routeConfig, own string, settings txmsg.Settings) (func(context.Context) (Broker, error), error) {
	if route.Destination == "" || route.Broker == "" {
		return nil, nil // the section with the routes has told
	}
	if route.Destination == own {
		return nil, fmt.Errorf("localtable: the destination of a route must be another than %q, whose section has the routes", own)
	}
	opener, ok := b[route.Broker]
	if !ok {
		_ = settings.Section(route.Destination, &struct{}{}) // it is no unknown one
		return nil, fmt.Errorf("localtable: broker of destination %s must be one of %s, got %q",
			route.Destination, strings.Join(slices.Sorted(maps.Keys(b)), ", "), route.Broker)
	}
	return opener(route.Destination, settings)
}

// openRoutes opens the routes' brokers, or none.
func openRoutes[Tx any](
	ctx context.Context, store Store[Tx], routes []Route, opens []func(context.Context) (Broker, error), cfg Config,
) (txmsg.Messenger[Tx], error) {
	var problems []error
	routes = slices.Clone(routes)
	for i, open := range opens {
		broker, err := open(ctx)
		if err != nil {
			problems = append(problems, fmt.Errorf("localtable: route %s: %w", routes[i], err))
		}
		routes[i].Broker = broker
	}
	if len(problems) == 0 {
		m, err := NewRouted(store, routes, cfg)
		if err == nil {
			return m, nil
		}
		problems = append(problems, err)
	}
	for _, route := range routes {
		if route.Broker != nil {
			problems = append(problems, route.Broker.Close())
		}
	}
	return nil, errors.Join(problems...)
}

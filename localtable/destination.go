package localtable

import (
	"reflect"
	"slices"
	"sync"

	"github.com/txmsg/txmsg-go/txmsg"
)

// destination is a route at work. What is known of one destination's broker is of no concern to the others.
type destination struct {
	Route
	expected []string // topics that the broker should have
	meter    *meter
	breaker  *breaker
	trouble  *trouble      // of its reader with the database
	wake     chan struct{} // its reader looks at once
}

// destinations are in the order of their routes.
type destinations []*destination

// newDestinations gives each topic of the configuration to the route that takes it.
func newDestinations(routes []Route, cfg Config, instruments *instruments) destinations {
	all := make(destinations, len(routes))
	for i, route := range routes {
		if route.Concurrency == 0 {
			route.Concurrency = cfg.Concurrency
		}
		route.Topics = slices.Clone(route.Topics)
		all[i] = &destination{
			Route:    route,
			expected: slices.DeleteFunc(slices.Clone(route.Topics), func(pattern string) bool { return !isTopic(pattern) }),
			breaker:  &breaker{destination: route.Destination, batchSize: cfg.BatchSize, log: cfg.Logger},
			trouble:  newTrouble(cfg.Logger),
			wake:     make(chan struct{}, 1),
		}
	}
	for _, topic := range cfg.Topics {
		if d, err := all.of(topic); err == nil && !slices.Contains(d.expected, topic) {
			d.expected = append(d.expected, topic)
		}
	}
	for _, d := range all {
		d.meter = instruments.of(d.Destination, d.expected)
	}
	return all
}

// of returns the first destination whose route takes topic.
func (all destinations) of(topic string) (*destination, error) {
	for _, d := range all {
		if d.takes(topic) {
			return d, nil
		}
	}
	routes := make([]Route, len(all))
	for i, d := range all {
		routes[i] = d.Route
	}
	return nil, noRoute(topic, routes)
}

// check is the check of the topic's broker.
func (all destinations) check(m txmsg.Message) error {
	d, err := all.of(m.Topic)
	if err != nil {
		return err
	}
	return d.Broker.Check(m)
}

// entries names each message's destination.
func (all destinations) entries(msgs []txmsg.Message) ([]Entry, error) {
	entries := make([]Entry, len(msgs))
	for i, msg := range msgs {
		d, err := all.of(msg.Topic)
		if err != nil {
			return nil, err
		}
		entries[i] = Entry{Destination: d.Destination, Message: msg}
	}
	return entries, nil
}

// without returns those of names that are no destination of a route.
func (all destinations) without(names []string) (unrouted []string) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(d *destination) bool { return d.Destination == name }) {
			unrouted = append(unrouted, name)
		}
	}
	return unrouted
}

func (all destinations) wakeUp() {
	for _, d := range all {
		signal(d.wake)
	}
}

// close closes every broker once, all at the same time: one that is slow to end must not take the others' time.
func (all destinations) close(failed func(d *destination, err error)) {
	var closing sync.WaitGroup
	defer closing.Wait()
	for i, d := range all {
		if !slices.ContainsFunc(all[:i], func(before *destination) bool { return same(before.Broker, d.Broker) }) {
			closing.Go(func() {
				if err := d.Broker.Close(); err != nil {
					failed(d, err)
				}
			})
		}
	}
}

// same compares what may not be comparable.
func same(a, b Broker) bool { return reflect.ValueOf(a).Comparable() && a == b }

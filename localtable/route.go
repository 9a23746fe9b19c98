package localtable

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Route is a destination: the topics that go there, and the broker that has them.
type Route struct {
	// Destination is the name that rows carry, in the form of a topic. It is a label of the metrics.
	Destination string
	// Topics are patterns as [path.Match] has them; "*" takes every topic. The first route that takes a topic gets it. A pattern
	// without special characters is a topic that the broker is expected to have, as one of Config.Topics is.
	Topics []string
	// Broker is where they go. Routes may share one.
	Broker Broker
	// Concurrency is the most batches of this destination under way at once. Defaults to Config.Concurrency.
	Concurrency int
}

// special are the characters that make more of a pattern than a name.
const special = `*?[\`

func isTopic(pattern string) bool { return !strings.ContainsAny(pattern, special) }

func matches(pattern, topic string) bool {
	ok, _ := path.Match(pattern, topic)
	return ok
}

func (r Route) takes(topic string) bool {
	return slices.ContainsFunc(r.Topics, func(pattern string) bool { return matches(pattern, topic) })
}

func (r Route) String() string {
	return fmt.Sprintf("%s (%s)", r.Destination, strings.Join(r.Topics, ", "))
}

// shadows reports whether earlier takes every topic that later takes, as far as is told by taking later's text for a topic: a
// star of earlier matches any special characters in it, nothing else of earlier may.
func shadows(earlier, later string) bool {
	return earlier == later || (isTopic(later) || !strings.ContainsAny(earlier, `?[\`)) && matches(earlier, later)
}

// validateRoutes reports all problems of routes together. The brokers are not asked for: they may not be open yet.
func validateRoutes(routes []Route, cfg Config) error {
	var problems []error
	check := func(ok bool, field, rule string, value any) {
		if !ok {
			problems = append(problems, fmt.Errorf("localtable: %s must be %s, got %v", field, rule, value))
		}
	}
	check(len(routes) > 0, "routes", "one or more", "none")
	check(cfg.Destination == "", "Config.Destination", "empty where there are routes", fmt.Sprintf("%q", cfg.Destination))
	destinations, patterns := map[string]bool{}, []string{}
	for i, route := range routes {
		name := fmt.Sprintf("Route[%d].", i)
		check(isName(route.Destination), name+"Destination", "a name of letters, digits, '-', '_' and single '.' inside", fmt.Sprintf("%q", route.Destination))
		check(!destinations[route.Destination], name+"Destination", "another than those of the routes before", fmt.Sprintf("%q", route.Destination))
		destinations[route.Destination] = true
		check(len(route.Topics) > 0, name+"Topics", "one pattern or more", "none")
		check(route.Concurrency >= 0 && route.Concurrency <= Lanes, name+"Concurrency", fmt.Sprintf("between 1 and %d, or 0 for the default", Lanes), route.Concurrency)
		for j, pattern := range route.Topics {
			field := fmt.Sprintf("%sTopics[%d]", name, j)
			_, err := path.Match(pattern, "")
			check(err == nil && (isName(pattern) || !isTopic(pattern)) && !strings.Contains(pattern, "/"), field, "a topic or a pattern of topics", fmt.Sprintf("%q", pattern))
			if before := slices.IndexFunc(patterns, func(earlier string) bool { return shadows(earlier, pattern) }); before >= 0 {
				check(false, field, fmt.Sprintf("before %q, which takes all its topics", patterns[before]), fmt.Sprintf("%q", pattern))
			}
			patterns = append(patterns, pattern)
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...) // a route may lack what it should take
	}
	for i, topic := range cfg.Topics {
		if !slices.ContainsFunc(routes, func(r Route) bool { return r.takes(topic) }) {
			problems = append(problems, fmt.Errorf("localtable: Config.Topics[%d]: %w", i, noRoute(topic, routes)))
		}
	}
	return errors.Join(problems...)
}

// noRoute is the error of a topic that no route takes.
func noRoute(topic string, routes []Route) error {
	texts := make([]string, len(routes))
	for i, route := range routes {
		texts[i] = route.String()
	}
	return &txmsg.InvalidMessageError{
		Field: "Topic", Value: topic, Err: txmsg.ErrNoRoute, Rule: "must be one that a route takes: " + strings.Join(texts, ", "),
	}
}

// isName reports whether name has the form of a topic.
func isName(name string) bool { return txmsg.Message{Topic: name}.Validate() == nil }

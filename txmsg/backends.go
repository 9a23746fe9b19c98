package txmsg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings is the part of a program's configuration that is about messaging; package config reads one from YAML and the
// environment.
type Settings interface {
	// Backend is the name of the backend to run: a key of [Backends].
	Backend() string
	// Unknown names what is set, in whatever form, and belongs neither to one of sections nor to what the program has
	// read for itself.
	Unknown(sections ...string) []string
	// Section decodes the section called name into the struct that into points to. An unknown field, a value
	// of the wrong kind, and a missing required one are errors that name the field; a missing section is an empty one. A
	// nil field of the form Logger *slog.Logger gets the program's logger, if there is one.
	Section(name string, into any) error
}

// Opener opens one backend. name is its key in [Backends]; its parts between slashes are the names of its sections. A broker
// or database that does not answer is no error: Run waits for it.
type Opener[Tx any] func(ctx context.Context, name string, settings Settings) (Messenger[Tx], error)

// Backends are the backends that a program can run, by the name that configuration uses: "rocketmq", "localtable/kafka".
type Backends[Tx any] map[string]Opener[Tx]

// Open opens the backend that settings name. A name that is missing, unknown or in another case, and a setting that belongs
// neither to a backend of b nor to the program, are errors that list what there is; they are found before anything is opened.
func (b Backends[Tx]) Open(ctx context.Context, settings Settings) (Messenger[Tx], error) {
	names := slices.Sorted(maps.Keys(b))
	known := map[string]bool{}
	for _, name := range names {
		for part := range strings.SplitSeq(name, "/") {
			known[part] = true
		}
	}
	var problems []error
	open, ok := b[settings.Backend()]
	if !ok {
		problems = append(problems, fmt.Errorf("txmsg: backend must be one of %s, got %q", strings.Join(names, ", "), settings.Backend()))
	}
	sections := slices.Sorted(maps.Keys(known))
	for _, name := range settings.Unknown(sections...) {
		problems = append(problems, fmt.Errorf("txmsg: unknown setting %s, there are the sections %s", name, strings.Join(sections, ", ")))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return open(ctx, settings.Backend(), settings)
}

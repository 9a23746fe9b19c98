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

// Opener reads the settings of one backend and opens nothing; the function it returns opens the backend. name is its key in
// [Backends]. It reads its sections also when one of them is wrong: a section that no opener reads is unknown. A broker or
// database that does not answer is no error: Run waits for it.
type Opener[Tx any] func(name string, settings Settings) (open func(ctx context.Context) (Messenger[Tx], error), err error)

// Backends are the backends that a program can run, by the name that configuration uses: "rocketmq", "localtable/kafka".
type Backends[Tx any] map[string]Opener[Tx]

// Open opens the backend that settings name. A name that is missing, unknown or in another case, a setting of the backend that
// is wrong, and one that belongs neither to a backend of b nor to the program, are errors that list what there is; they are
// found before anything is opened.
func (b Backends[Tx]) Open(ctx context.Context, settings Settings) (Messenger[Tx], error) {
	names := slices.Sorted(maps.Keys(b))
	noting := &sectionNotes{Settings: settings, read: map[string]bool{}}
	var problems []error
	var open func(ctx context.Context) (Messenger[Tx], error)
	if opener, ok := b[settings.Backend()]; ok {
		var err error
		open, err = opener(settings.Backend(), noting)
		problems = append(problems, err)
	} else {
		problems = append(problems, fmt.Errorf("txmsg: backend must be one of %s, got %q", strings.Join(names, ", "), settings.Backend()))
	}
	for _, name := range names {
		if name != settings.Backend() {
			_, _ = b[name](name, noting) // it need not be complete, but what it would read is known
		}
	}
	sections := slices.Sorted(maps.Keys(noting.read))
	for _, name := range settings.Unknown(sections...) {
		problems = append(problems, fmt.Errorf("txmsg: unknown setting %s, there are the sections %s", name, strings.Join(sections, ", ")))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return open(ctx)
}

// sectionNotes are settings that remember which sections were read.
type sectionNotes struct {
	Settings
	read map[string]bool
}

func (s *sectionNotes) Section(name string, into any) error {
	s.read[name] = true
	return s.Settings.Section(name, into)
}

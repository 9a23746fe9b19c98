package txmsg

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type fakeSettings struct {
	backend string
	set     []string // top-level names
	wrong   string   // a section that cannot be read
}

func (s fakeSettings) Backend() string { return s.backend }

func (s fakeSettings) Unknown(sections ...string) (unknown []string) {
	for _, name := range s.set {
		if !slices.Contains(sections, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func (s fakeSettings) Section(name string, _ any) error {
	if name == s.wrong {
		return errors.New(name + " is wrong")
	}
	return nil
}

func TestBackendsOpen(t *testing.T) {
	opened := ""
	var result error
	open := func(name string, settings Settings) (func(context.Context) (Messenger[int], error), error) {
		var problems []error
		for section := range strings.SplitSeq(name, "/") {
			problems = append(problems, settings.Section(section, nil))
		}
		return func(context.Context) (Messenger[int], error) {
			opened = name
			return nil, result
		}, errors.Join(problems...)
	}
	backends := Backends[int]{"rocketmq": open, "localtable/kafka": open, "localtable/nats": open}

	for name, c := range map[string]struct {
		settings fakeSettings
		says     []string
	}{
		"C60 a mistyped backend":   {fakeSettings{backend: "rocketmqq"}, []string{`"rocketmqq"`}},
		"C60 no backend":           {fakeSettings{}, []string{`""`}},
		"C60 another case":         {fakeSettings{backend: "Localtable/Kafka"}, []string{`"Localtable/Kafka"`}},
		"C60 half a name":          {fakeSettings{backend: "Kafka"}, []string{`"Kafka"`}},
		"C60 an unknown key":       {fakeSettings{backend: "rocketmq", set: []string{"rocketmq", "bakend"}}, []string{"unknown setting bakend", "kafka, localtable, nats, rocketmq"}},
		"C60 all problems at once": {fakeSettings{backend: "nats", set: []string{"x", "y"}}, []string{`"nats"`, "setting x", "setting y"}},
		"C60 a wrong section, and a setting of none": {
			fakeSettings{backend: "rocketmq", set: []string{"rocketmq", "x"}, wrong: "rocketmq"}, []string{"rocketmq is wrong", "setting x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened = ""
			_, err := backends.Open(t.Context(), c.settings)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
			if len(c.settings.set) == 0 {
				require.ErrorContains(t, err, "localtable/kafka, localtable/nats, rocketmq")
			}
			require.Empty(t, opened, "something was opened")
		})
	}

	t.Run("a known backend is opened under its name", func(t *testing.T) {
		_, err := backends.Open(t.Context(), fakeSettings{backend: "localtable/nats", set: []string{"localtable", "nats", "kafka"}})
		require.NoError(t, err)
		require.Equal(t, "localtable/nats", opened)
		_, err = backends.Open(t.Context(), fakeSettings{backend: "localtable/nats", set: []string{"nats", "kafka"}, wrong: "kafka"})
		require.NoError(t, err, "a section of a backend that is not asked for")
		result = errors.New("dial")
		_, err = backends.Open(t.Context(), fakeSettings{backend: "rocketmq"})
		require.ErrorIs(t, err, result)
	})
}

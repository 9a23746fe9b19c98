package txmsg

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type fakeSettings struct {
	backend string
	set     []string // top-level names
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

func (fakeSettings) Section(string, any) error { return nil }

func TestBackendsOpen(t *testing.T) {
	opened := ""
	var result error
	open := func(_ context.Context, name string, _ Settings) (Messenger[int], error) {
		opened = name
		return nil, result
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
		result = errors.New("dial")
		_, err = backends.Open(t.Context(), fakeSettings{backend: "rocketmq"})
		require.ErrorIs(t, err, result)
	})
}

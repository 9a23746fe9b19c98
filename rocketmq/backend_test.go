package rocketmq

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// settings is a configuration with one section.
type settings struct {
	txmsg.Settings
	cfg Config
	err error
}

func (s settings) Section(name string, into any) error {
	if name == "rocketmq" {
		*into.(*Config) = s.cfg
	}
	return s.err
}

func TestOn(t *testing.T) {
	open := On(storetest.NewMemory())
	t.Run("opens what the section says, without connecting", func(t *testing.T) {
		m, err := open(t.Context(), "rocketmq", settings{cfg: testConfig()})
		require.NoError(t, err)
		require.Equal(t, txmsg.Abilities{}, m.Abilities())
	})
	t.Run("C60 names what is missing", func(t *testing.T) {
		_, err := open(t.Context(), "rocketmq", settings{})
		require.ErrorContains(t, err, "Config.Group")
	})
	t.Run("returns the error of the section", func(t *testing.T) {
		broken := errors.New("unknown field")
		_, err := open(t.Context(), "rocketmq", settings{err: broken})
		require.ErrorIs(t, err, broken)
	})
}

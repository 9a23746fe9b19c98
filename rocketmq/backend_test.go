package rocketmq

import (
	"context"
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
	open := func(ctx context.Context, settings txmsg.Settings) (txmsg.Messenger[*storetest.MemoryTx], error) {
		open, err := On(storetest.NewMemory())("rocketmq", settings)
		if err != nil {
			return nil, err
		}
		return open(ctx)
	}
	t.Run("opens what the section says, without connecting", func(t *testing.T) {
		m, err := open(t.Context(), settings{cfg: testConfig()})
		require.NoError(t, err)
		require.Equal(t, txmsg.Abilities{}, m.Abilities())
	})
	t.Run("C60 names what is missing", func(t *testing.T) {
		_, err := open(t.Context(), settings{})
		require.ErrorContains(t, err, "Config.Group")
	})
	t.Run("returns the error of the section", func(t *testing.T) {
		broken := errors.New("unknown field")
		_, err := open(t.Context(), settings{err: broken})
		require.ErrorIs(t, err, broken)
	})
}

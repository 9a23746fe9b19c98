package localtable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/txmsg/txmsg-go/txmsg"
)

// On makes a backend of a store and a way to open a broker. The backend's name has two parts, as in "localtable/kafka": the
// section of the first is read into [Config], that of the second into C, the broker's own configuration.
func On[Tx, C any, B Broker](store Store[Tx], open func(context.Context, C) (B, error)) txmsg.Opener[Tx] {
	return func(ctx context.Context, name string, settings txmsg.Settings) (txmsg.Messenger[Tx], error) {
		own, theirs, ok := strings.Cut(name, "/")
		if !ok || own == "" || theirs == "" || strings.Contains(theirs, "/") {
			return nil, fmt.Errorf("localtable: a backend's name must have the form localtable/<broker>, got %q", name)
		}
		var cfg Config
		var brokerConfig C
		if err := errors.Join(settings.Section(own, &cfg), settings.Section(theirs, &brokerConfig)); err != nil {
			return nil, err
		}
		cfg.setDefaults()
		if err := cfg.validate(); err != nil {
			return nil, err
		}
		broker, err := open(ctx, brokerConfig)
		if err != nil {
			return nil, err
		}
		messenger, err := New(store, broker, cfg)
		if err != nil {
			return nil, errors.Join(err, broker.Close())
		}
		return messenger, nil
	}
}

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
	return func(name string, settings txmsg.Settings) (func(context.Context) (txmsg.Messenger[Tx], error), error) {
		own, theirs, ok := strings.Cut(name, "/")
		if !ok || own == "" || theirs == "" || strings.Contains(theirs, "/") {
			return nil, fmt.Errorf("localtable: a backend's name must have the form localtable/<broker>, got %q", name)
		}
		var cfg Config
		err := settings.Section(own, &cfg)
		openBroker, theirErr := Opening(open)(theirs, settings)
		if err == nil {
			err = cfg.check()
		}
		if err := errors.Join(err, theirErr); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (txmsg.Messenger[Tx], error) {
			broker, err := openBroker(ctx)
			if err != nil {
				return nil, err
			}
			m, err := New(store, broker, cfg)
			if err != nil {
				return nil, errors.Join(err, broker.Close())
			}
			return m, nil
		}, nil
	}
}

// BrokerOpener reads a broker's configuration from a section and opens nothing; the function it returns opens the broker.
type BrokerOpener func(section string, settings txmsg.Settings) (open func(context.Context) (Broker, error), err error)

// Opening makes a BrokerOpener of a function that opens a broker with the configuration C, such as kafka.Open.
func Opening[C any, B Broker](open func(context.Context, C) (B, error)) BrokerOpener {
	return func(section string, settings txmsg.Settings) (func(context.Context) (Broker, error), error) {
		var cfg C
		if err := settings.Section(section, &cfg); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (Broker, error) {
			broker, err := open(ctx, cfg)
			if err != nil {
				return nil, err
			}
			return broker, nil
		}, nil
	}
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/txmsg/txmsg-go/config"
	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/demo/order"
	"github.com/txmsg/txmsg-go/demo/payment"
	"github.com/txmsg/txmsg-go/txmsg"
)

// providerTimeout is how long the pretend provider leaves a call unanswered. It is short because the handler waits inside its
// transaction; a provider that is slow in earnest wants a step of its own.
const providerTimeout = 5 * time.Millisecond

// shutdownTimeout is how long requests under way have when the demo ends.
const shutdownTimeout = 5 * time.Second

// requestTimeout is how long a request may take to come.
const requestTimeout = 10 * time.Second

// Demo is both services, ready to run.
type Demo struct {
	listener net.Listener
	server   *http.Server
	// They end one after the other: first those that take work, last those that send what the work has published.
	consumers  []func(context.Context) error
	messengers []func(context.Context) error
	close      []func()
	tables     func(ctx context.Context) (Tables, error)
	topics     []string
	inProcess  nats.InProcessConnProvider
}

// Open reads the configuration and opens everything: the HTTP listener, databases with their tables, the way to the broker.
// The database must be there; a broker that is not is waited for by Run.
func Open(ctx context.Context, source *config.Source, probe Probe) (*Demo, error) {
	cfg, err := Read(source)
	if err != nil {
		return nil, err
	}
	if cfg.Database != "" {
		return open(ctx, cfg, source, probe, openPostgres)
	}
	return open(ctx, cfg, source, probe, openSQLite)
}

func open[Tx any](ctx context.Context, cfg Config, settings txmsg.Settings, probe Probe, openDatabase opener[Tx]) (d *Demo, err error) {
	opened := &Demo{}
	defer func() {
		if err != nil {
			opened.free()
		}
	}()
	d = opened
	// First what another demo may hold: nothing of its data is touched then.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("demo: listen: %w", err)
	}
	d.listener = listener
	d.close = append(d.close, func() { _ = listener.Close() }) // the server may have closed it
	unlock, err := lock(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	d.close = append(d.close, unlock)
	transport, err := openTransport(cfg, settings)
	if err != nil {
		return nil, err
	}
	d.close = append(d.close, transport.close)
	orderTopic, paymentTopic := cfg.Name+"-orders", cfg.Name+"-payments"

	orderDB, orderMessenger, err := side(ctx, d, cfg, settings, probe, transport, openDatabase, "order", orderTopic)
	if err != nil {
		return nil, err
	}
	paymentDB, paymentMessenger, err := side(ctx, d, cfg, settings, probe, transport, openDatabase, "payment", paymentTopic)
	if err != nil {
		return nil, err
	}
	orders, err := order.New(ctx, orderDB.sql, orderMessenger, orderTopic)
	if err != nil {
		return nil, err
	}
	payments, err := payment.New(ctx, paymentDB.sql, payment.NewProvider(providerTimeout), paymentTopic)
	if err != nil {
		return nil, err
	}
	if err := consume(d, cfg, probe, transport, orderDB, orderMessenger, "order", paymentTopic, orders.Handle); err != nil {
		return nil, err
	}
	if err := consume(d, cfg, probe, transport, paymentDB, paymentMessenger, "payment", orderTopic, payments.Handle); err != nil {
		return nil, err
	}
	d.topics = []string{orderTopic, paymentTopic}
	d.inProcess = transport.inProcess
	d.tables = func(ctx context.Context) (Tables, error) {
		return readTables(ctx, []*database[Tx]{orderDB, paymentDB}, orders, payments)
	}
	d.server = &http.Server{Handler: order.NewAPI(orders, cfg.Logger), ReadTimeout: requestTimeout}
	return d, nil
}

// side opens the database and the messenger of one service.
func side[Tx any](
	ctx context.Context, d *Demo, cfg Config, settings txmsg.Settings, probe Probe, t *transport, openDatabase opener[Tx], name, topic string,
) (*database[Tx], txmsg.Messenger[Tx], error) {
	db, err := openDatabase(ctx, cfg, probe, name)
	if err != nil {
		return nil, nil, err
	}
	d.close = append(d.close, db.close)
	m, err := db.backends.Open(ctx, serviceSettings{Settings: settings, group: group(cfg, name), topic: topic, transport: t})
	if err != nil {
		return nil, nil, err
	}
	d.messengers = append(d.messengers, func(ctx context.Context) error {
		createTopic(ctx, cfg, t, topic)
		return m.Run(ctx)
	})
	return db, messenger[Tx]{Messenger: m, probe: probe}, nil
}

// consume makes the consumer of one service.
func consume[Tx any](
	d *Demo, cfg Config, probe Probe, t *transport, db *database[Tx], m txmsg.Messenger[Tx], name, topic string, handler consumer.Handler[Tx],
) error {
	subscriber, err := t.subscriber(group(cfg, name), topic)
	if err != nil {
		return err
	}
	c, err := consumer.New(m, db.inbox, subscriber, heard(probe, handler), consumer.Config{Name: name, Topics: []string{topic}, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	d.consumers = append(d.consumers, c.Run)
	return nil
}

// createTopic tries until the topic is there or ctx ends.
func createTopic(ctx context.Context, cfg Config, t *transport, topic string) {
	retry := backoff.NewExponentialBackOff()
	for failed := false; ctx.Err() == nil; failed = true {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, topicTimeout)
			defer cancel()
			return t.create(ctx, topic)
		}()
		if err == nil || ctx.Err() != nil {
			return
		}
		if !failed {
			cfg.Logger.Warn("topic cannot be made: waiting for the broker", "topic", topic, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.NextBackOff()):
		}
	}
}

func group(cfg Config, service string) string { return cfg.Name + "-" + service }

// Address is where the HTTP server listens.
func (d *Demo) Address() string { return d.listener.Addr().String() }

// Tables reads both services' databases.
func (d *Demo) Tables(ctx context.Context) (Tables, error) { return d.tables(ctx) }

// Run serves until ctx ends, then shuts down in order: no more requests, no more messages, everything published sent, and
// databases closed. It is called once.
func (d *Demo) Run(ctx context.Context) error {
	defer d.free()
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	messengers := start(failed, fail, d.messengers)
	consumers := start(failed, fail, d.consumers)
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(d.listener) }()

	var err error
	select {
	case <-failed.Done():
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = d.server.Shutdown(shutdown)
		<-served
	case err = <-served:
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, consumers(), messengers())
}

// start runs the functions until the one that it returns is called: it ends them and waits. The first that fails ends all.
func start(ctx context.Context, fail context.CancelCauseFunc, runs []func(context.Context) error) (stop func() error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	for _, run := range runs {
		group.Go(func() error {
			err := run(own)
			if err != nil {
				fail(err)
			}
			return err
		})
	}
	return func() error {
		cancel()
		return group.Wait()
	}
}

func (d *Demo) free() {
	for i := len(d.close) - 1; i >= 0; i-- {
		d.close[i]()
	}
}

// Topics are the names of the topics of orders and payments.
func (d *Demo) Topics() []string { return d.topics }

// EmbeddedNATS is the NATS server in this process, or nil when there is none.
func (d *Demo) EmbeddedNATS() nats.InProcessConnProvider { return d.inProcess }

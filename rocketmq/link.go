package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/txmsg"
)

// link is the way to the brokers. The client is made when a name server answers for the first time, and is then at once
// given the route of every topic: its first heartbeat, a second later, registers it with their brokers. Until then
// no broker asks it about the halves that an earlier process left behind.
type link struct {
	cfg      *Config
	dial     dialer
	missing  func(ctx context.Context, nameServers, topics []string) ([]string, error)
	identity func(ctx context.Context) (string, error)
	listener primitive.TransactionListener
	halves   *registry

	turn chan struct{} // is held while trying

	mu       sync.Mutex
	client   sender
	owner    string
	routes   map[string]bool // topics whose route the client has
	brokers  map[string]bool
	up       bool // transactions can run
	complete bool // and every topic has its route
	tried    time.Time
	failure  error // of the last try
	closed   bool  // by shutdown: no client is made any more
}

func newLink(cfg *Config, dial dialer, listener primitive.TransactionListener, halves *registry) *link {
	return &link{
		cfg: cfg, dial: dial, listener: listener, halves: halves,
		turn: make(chan struct{}, 1), routes: map[string]bool{}, brokers: map[string]bool{},
	}
}

const (
	tryPause   = time.Second     // between tries; who comes earlier gets the last one's error at once
	tryTimeout = 5 * time.Second // of one try
	maxPause   = 10 * time.Second
)

// ready returns the client and the owner, or at once an error while the broker is known to be out of reach. The
// first caller tries; others wait for it.
func (l *link) ready(ctx context.Context) (client sender, owner string, err error) {
	l.mu.Lock()
	client, owner, up, failure := l.client, l.owner, l.up, l.failure
	recent := time.Since(l.tried) < tryPause
	l.mu.Unlock()
	switch {
	case up:
		return client, owner, nil
	case failure != nil && (recent || len(l.turn) > 0):
		return nil, "", failure
	}
	if err := l.try(ctx, tryPause); err != nil {
		return nil, "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client, l.owner, nil
}

// try makes the link as complete as it can be. A try that failed less than rest ago is not made again.
func (l *link) try(ctx context.Context, rest time.Duration) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fmt.Errorf("rocketmq: %w: %w", txmsg.ErrOutage, context.Cause(ctx))
	}
	l.mu.Lock()
	done, recent, failure := l.complete, time.Since(l.tried) < rest, l.failure
	l.mu.Unlock()
	if done || recent && failure != nil {
		return failure
	}
	// Others may wait for this try: it does not end with the one caller.
	tryCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
	defer cancel()
	complete, err := l.connect(tryCtx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried, l.failure = time.Now(), err
	l.up = l.up || err == nil
	l.complete = complete && err == nil
	return err
}

func (l *link) connect(ctx context.Context) (complete bool, err error) {
	missing, err := l.missing(ctx, l.cfg.NameServers, l.cfg.Topics)
	if err != nil {
		return false, fmt.Errorf("rocketmq: %w: %w", txmsg.ErrOutage, err)
	}
	if len(missing) > 0 && !l.cfg.AllowMissing {
		return false, &MissingTopicsError{Topics: missing}
	}
	owner, err := l.identity(ctx)
	if err != nil {
		return false, fmt.Errorf("rocketmq: %w", err)
	}
	client, err := l.open(owner)
	if err != nil {
		return false, err
	}
	for _, topic := range l.cfg.Topics {
		if slices.Contains(missing, topic) || l.hasRoute(topic) {
			continue
		}
		m := primitive.NewMessage(topic, []byte{0})
		m.WithProperty(propertyWarmUp, "1")
		_, err := client.SendMessageInTransaction(ctx, m) // always an error: the selector stops it
		if !l.hasRoute(topic) {
			return false, fmt.Errorf("rocketmq: route of %s: %w: %w", topic, txmsg.ErrOutage, err)
		}
	}
	return len(missing) == 0, nil
}

// open makes and starts the client once.
func (l *link) open(owner string) (sender, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("rocketmq: %w", txmsg.ErrClosed)
	}
	if l.client != nil {
		return l.client, nil
	}
	client, err := l.dial(l.cfg, l.listener, selector{halves: l.halves, warmed: l.warmed})
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("rocketmq: start producer: %w", err), client.Shutdown())
	}
	l.client, l.owner = client, owner
	return client, nil
}

func (l *link) warmed(topic string, brokers []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes[topic] = true
	for _, broker := range brokers {
		l.brokers[broker] = true
	}
}

func (l *link) hasRoute(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.routes[topic]
}

// run tries until the link is complete, and returns nil when ctx ends. A missing topic is an error, everything else is waited for.
func (l *link) run(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := l.try(ctx, 0) // what a transaction met before the topics were made does not end Run
		if ctx.Err() != nil {
			break
		}
		var missing *MissingTopicsError
		if errors.As(err, &missing) {
			return err
		}
		l.mu.Lock()
		complete := l.complete
		l.mu.Unlock()
		if complete {
			l.cfg.Logger.Info("ready", "group", l.cfg.Group)
			<-ctx.Done()
			break
		}
		if failures == 0 {
			l.cfg.Logger.Warn("not ready: waiting for brokers, topics or the database", "group", l.cfg.Group, "error", err)
		}
		pause := min(tryPause<<min(failures, 8), maxPause)
		sleep(ctx, pause+rand.N(pause/4))
	}
	return nil
}

// sleep returns after d or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// shutdown ends the client. Before it closes the connections it makes sure that the brokers have read the last settlements,
// which nobody acknowledges: bytes that were not read yet are lost when a connection ends.
func (l *link) shutdown() {
	l.mu.Lock()
	l.closed = true
	client, topic, brokers := l.client, "", maps.Clone(l.brokers) // a transaction that came late may still be learning
	for route := range l.routes {
		topic = route
	}
	l.mu.Unlock()
	if client == nil {
		return
	}
	for broker := range brokers {
		m := primitive.NewMessage(topic, []byte{0})
		m.WithProperty(propertyFlush, broker)
		_, _ = client.SendMessageInTransaction(context.Background(), m) // any answer does
	}
	if err := client.Shutdown(); err != nil {
		l.cfg.Logger.Warn("producer not shut down", "error", err)
	}
}

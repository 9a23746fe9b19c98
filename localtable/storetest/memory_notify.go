package storetest

import (
	"context"
	"fmt"

	"github.com/txmsg/txmsg-go/localtable"
)

// memoryListener is one who listens.
type memoryListener struct {
	heard chan struct{}
	lost  chan struct{} // closed when the connection is
}

// Notify implements [localtable.Store].
func (m *Memory) Notify(ctx context.Context) error {
	unlock, err := m.ask(ctx, &m.calls.Notify)
	if err != nil {
		return err
	}
	defer unlock()
	for l := range m.listeners {
		select {
		case l.heard <- struct{}{}:
		default:
		}
	}
	return nil
}

// Listen implements [localtable.Store].
func (m *Memory) Listen(ctx context.Context, heard func()) error {
	l, err := m.listen(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer m.forget(l)
	heard()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.lost:
			return fmt.Errorf("storetest: listen: %w", ErrDown)
		case <-l.heard:
			heard()
		}
	}
}

func (m *Memory) listen(ctx context.Context) (*memoryListener, error) {
	unlock, err := m.ask(ctx, &m.calls.Listen)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if m.faults.Deaf {
		return nil, fmt.Errorf("storetest: listen: %w", localtable.ErrDeaf)
	}
	l := &memoryListener{heard: make(chan struct{}, 1), lost: make(chan struct{})}
	m.listeners[l] = true
	return l, nil
}

func (m *Memory) forget(l *memoryListener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listeners, l)
}

// Cut breaks the connections of those who listen.
func (m *Memory) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut()
}

func (m *Memory) cut() {
	for l := range m.listeners {
		close(l.lost)
		delete(m.listeners, l)
	}
}

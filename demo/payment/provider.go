package payment

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// ErrDeclined: the provider refused the charge; no money moved.
	ErrDeclined = errors.New("declined by the provider")
	// ErrTimeout: the provider did not answer. It may or may not have charged.
	ErrTimeout = errors.New("the provider did not answer in time")
)

// Endings of an amount, in cents, that the pretend provider treats specially; all others are charged.
const (
	EndingDeclined = 31 // declined
	EndingTimeout  = 47 // never answered, though charged
	EndingSlow     = 59 // answered at the third try
)

// Provider is a pretend payment provider: it decides by the amount alone, knows each order once, and keeps everything in
// memory. Its methods may be called by many goroutines.
type Provider struct {
	timeout time.Duration
	mu      sync.Mutex
	tries   map[string]int   // by order
	charged map[string]int64 // by order; a void or refund removes it
}

// NewProvider returns a provider whose unanswered calls last timeout.
func NewProvider(timeout time.Duration) *Provider {
	return &Provider{timeout: timeout, tries: map[string]int{}, charged: map[string]int64{}}
}

// Charge takes amount once for the order, however often it is called. It returns nil, [ErrDeclined] or [ErrTimeout].
func (p *Provider) Charge(ctx context.Context, orderID string, amount int64) error {
	try := p.charge(orderID, amount)
	switch ending := amount % 100; {
	case ending == EndingDeclined:
		return ErrDeclined
	case ending == EndingTimeout, ending == EndingSlow && try < 3:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.timeout):
			return ErrTimeout
		}
	}
	return nil
}

func (p *Provider) charge(orderID string, amount int64) (try int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries[orderID]++
	if amount%100 != EndingDeclined {
		p.charged[orderID] = amount
	}
	return p.tries[orderID]
}

// Void gives back what was charged for the order, if anything was; it may be called again.
func (p *Provider) Void(orderID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.charged, orderID)
}

// Charged returns what is charged for the order, 0 when nothing is.
func (p *Provider) Charged(orderID string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charged[orderID]
}

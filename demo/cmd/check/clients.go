package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txmsg/txmsg-go/demo/order"
	"github.com/txmsg/txmsg-go/demo/payment"
)

// told is what the HTTP clients were told: for each order the amount, and whether its cancellation was accepted.
type told struct {
	mu     sync.Mutex
	orders map[string]promise
}

type promise struct {
	amount    int64
	cancelled bool
}

func (t *told) add(id string, p promise) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orders[id] = p
}

// placeAll places so many orders; some with a repeated idempotency key, some of amounts that are declined or time out, and
// some that are cancelled at once.
func placeAll(ctx context.Context, url string, orders, clients int) (*told, error) {
	t := &told{orders: map[string]promise{}}
	group, ctx := errgroup.WithContext(ctx)
	for client := range clients {
		group.Go(func() error {
			for i := client; i < orders; i += clients {
				if err := placeOne(ctx, url, i, t); err != nil {
					return fmt.Errorf("order %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return t, group.Wait()
}

func placeOne(ctx context.Context, url string, i int, t *told) error {
	key := fmt.Sprintf("check-%d", i)
	request := order.Request{Customer: fmt.Sprintf("customer %d", i%17), Amount: amount(i)}
	placed, status, err := place(ctx, url, key, request)
	if err != nil {
		return err
	}
	if status != http.StatusCreated && status != http.StatusOK { // OK: a try that was answered with 503 had saved it
		return fmt.Errorf("status %d for a new key", status)
	}
	if i%7 == 0 {
		again, status, err := place(ctx, url, key, request)
		if err != nil {
			return err
		}
		if status != http.StatusOK || again.ID != placed.ID {
			return fmt.Errorf("the same key gave order %s and status %d, first %s", again.ID, status, placed.ID)
		}
	}
	p := promise{amount: request.Amount}
	if i%9 == 0 {
		if p.cancelled, err = cancel(ctx, url, placed.ID); err != nil {
			return err
		}
	}
	t.add(placed.ID, p)
	return nil
}

func amount(i int) int64 {
	base := int64(i+1) * 100
	switch i % 10 {
	case 3:
		return base + payment.EndingDeclined
	case 5:
		return base + payment.EndingTimeout
	case 8:
		return base + payment.EndingSlow
	default:
		return base
	}
}

func place(ctx context.Context, url, key string, request order.Request) (placed order.Order, status int, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return placed, 0, err
	}
	status, err = post(ctx, url+"/orders", key, body, &placed)
	return placed, status, err
}

// busyPause is the time before a request is sent again that was answered with 503, as the answer asks for.
const busyPause = 200 * time.Millisecond

// cancel reports whether the cancellation was accepted: not when the payment was faster.
func cancel(ctx context.Context, url, id string) (bool, error) {
	status, err := post(ctx, url+"/orders/"+id+"/cancel", "", nil, nil)
	return status == http.StatusOK, err
}

// post sends the request until the answer is not 503, and returns an error for every status but those that the caller can
// expect of a working service.
func post(ctx context.Context, url, key string, body []byte, into any) (int, error) {
	for {
		status, err := postOnce(ctx, url, key, body, into)
		if status != http.StatusServiceUnavailable {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, err
		case <-time.After(busyPause):
		}
	}
}

func postOnce(ctx context.Context, url, key string, body []byte, into any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated:
		if into == nil {
			return response.StatusCode, nil
		}
		return response.StatusCode, json.NewDecoder(response.Body).Decode(into)
	case http.StatusConflict:
		return response.StatusCode, nil
	default:
		var problem order.Problem
		_ = json.NewDecoder(response.Body).Decode(&problem) // the status says enough without it
		return response.StatusCode, fmt.Errorf("%s: %d %s", url, response.StatusCode, problem.Detail)
	}
}

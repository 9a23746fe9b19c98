package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/txmsg"
)

func delivery(id int) txmsg.Delivery {
	return txmsg.Delivery{Message: txmsg.Message{ID: fmt.Sprint(id)}}
}

func newPool(concurrency int, deliver Deliver) *Pool {
	return NewPool(deliver, concurrency, time.Second, slog.New(slog.DiscardHandler))
}

// recorder is a delivery function that keeps what it saw.
type recorder struct {
	mu       sync.Mutex
	began    []string
	finished map[string]bool
	last     int // of settled, -1 at first
	answer   func(id string) error
}

func newRecorder(answer func(id string) error) *recorder {
	return &recorder{finished: map[string]bool{}, last: -1, answer: answer}
}

func (r *recorder) deliver(_ context.Context, d txmsg.Delivery) error {
	r.mu.Lock()
	r.began = append(r.began, d.Message.ID)
	r.mu.Unlock()
	err := r.answer(d.Message.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.finished[d.Message.ID] = true
	}
	return err
}

// settle returns the settle function of message i.
func (r *recorder) settle(t *testing.T, i int) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i <= r.last {
			t.Errorf("%d settled after %d", i, r.last)
		}
		r.last = i
	}
}

func (r *recorder) state() (began []string, finished map[string]bool, last int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.began), maps.Clone(r.finished), r.last
}

// pass lets the bubble's clock go on by d, and the goroutines do what is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSettledIsAlwaysABeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(func(string) error {
			time.Sleep(rand.N(time.Second)) // the bubble's clock
			if rand.IntN(4) == 0 {
				return errors.New("not now")
			}
			return nil
		})
		q := NewQueue(newPool(8, r.deliver), func() {})
		for i := range 500 {
			q.Add(t.Context(), []string{"", "a", "b", "c"}[i%4], delivery(i), r.settle(t, i))
		}
		pass(30 * time.Second)
		q.Stop()
		_, finished, last := r.state()
		require.Positive(t, last)
		for i := 0; i <= last; i++ {
			require.True(t, finished[fmt.Sprint(i)], "%d of %d", i, last)
		}
		require.False(t, finished[fmt.Sprint(last+1)], "the first that is not settled is open")
	})
}

func TestKeyWaitsForItsRefusedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accept atomic.Bool
		r := newRecorder(func(id string) error {
			if id == "1" && !accept.Load() {
				return errors.New("refused")
			}
			return nil
		})
		q := NewQueue(newPool(4, r.deliver), func() {})
		for i, key := range []string{"a", "a", "b", "a", "b", ""} {
			q.Add(t.Context(), key, delivery(i), r.settle(t, i))
		}
		synctest.Wait()
		_, finished, last := r.state()
		require.Equal(t, map[string]bool{"0": true, "2": true, "4": true, "5": true}, finished)
		require.Zero(t, last)

		pass(10 * time.Second)
		began, _, _ := r.state()
		require.NotContains(t, began, "3", "a later message of the key")
		accept.Store(true)
		pass(time.Minute)
		_, finished, last = r.state()
		require.Len(t, finished, 6)
		require.Equal(t, 5, last)
		q.Stop()
	})
}

func TestConcurrencyIsBoundedAndAKeyIsNeverTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, twice := 0, 0, false
		keys := map[string]int{}
		count := func(key string, by int) {
			mu.Lock()
			defer mu.Unlock()
			running += by
			keys[key] += by
			most, twice = max(most, running), twice || keys[key] > 1
		}
		pool := newPool(3, func(_ context.Context, d txmsg.Delivery) error {
			count(d.Message.Key, 1)
			defer count(d.Message.Key, -1)
			time.Sleep(time.Second)
			return nil
		})
		one, two := NewQueue(pool, func() {}), NewQueue(pool, func() {})
		for i := range 40 {
			d := delivery(i)
			d.Message.Key = fmt.Sprint("key ", i%5)
			one.Add(t.Context(), d.Message.Key, d, func() {})
			d.Message.Key = fmt.Sprint("other ", i)
			two.Add(t.Context(), "", d, func() {})
		}
		pass(time.Hour)
		require.False(t, one.Full(1) || two.Full(1))
		one.Stop()
		two.Stop()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 3, most)
		require.False(t, twice)
	})
}

func TestStopWaitsForCallsAndStartsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRecorder(func(string) error { <-release; return nil })
		q := NewQueue(newPool(2, r.deliver), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 10 {
			q.Add(ctx, "", delivery(i), r.settle(t, i))
		}
		synctest.Wait()
		cancel()
		stopped := make(chan struct{})
		go func() { q.Stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Fatal("Stop did not wait")
		default:
		}
		q.Add(ctx, "", delivery(10), func() {}) // comes too late and is dropped
		close(release)
		<-stopped
		began, finished, _ := r.state()
		require.Len(t, began, 2)
		require.Len(t, finished, 2)
	})
}

func TestStopDoesNotWaitForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(func(string) error { return errors.New("refused") })
		q := NewQueue(newPool(1, r.deliver), func() {})
		q.Add(t.Context(), "a", delivery(1), func() { t.Error("settled") })
		synctest.Wait()
		begin := time.Now()
		q.Stop()
		require.Zero(t, time.Since(begin))
	})
}

func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRecorder(func(id string) error {
			if id == "0" {
				<-release
			}
			return nil
		})
		var changes atomic.Int32
		q := NewQueue(newPool(2, r.deliver), func() { changes.Add(1) })
		q.Add(t.Context(), "stuck", delivery(0), func() {})
		for i := 1; i < 2*windowFactor; i++ {
			synctest.Wait()
			require.False(t, q.Full(2), "%d", i)
			q.Add(t.Context(), "", delivery(i), func() {})
		}
		synctest.Wait()
		require.True(t, q.Full(2), "too much would come again after a crash")
		close(release)
		synctest.Wait()
		require.False(t, q.Full(2))
		require.EqualValues(t, 2*windowFactor, changes.Load())
		q.Stop()
	})
}

package rocketmq

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/checker/storetest"
	"github.com/txmsg/txmsg-go/txmsg"
)

func TestConfig(t *testing.T) {
	t.Run("reports all problems at once, each with field, rule and value", func(t *testing.T) {
		_, err := New(storetest.NewMemory(), Config{
			NameServers: []string{"namesrv"}, Group: "or ders", Topics: []string{"a.b"},
			SendTimeout: 7 * time.Second, Tries: -1, MaxStoring: -1, Credentials: Credentials{AccessKey: "a"},
		})
		for _, problem := range []string{
			`Config.NameServers must be host:port each, got "namesrv"`, `Config.Group must be`, `got "or ders"`, `Config.Topics must be`, `got "a.b"`,
			"Config.PrepareTimeout must be longer than SendTimeout (7s), got 5s", "Config.Tries must be between 1 and 16, got -1",
			"Config.MaxStoring must be at least 1, got -1", "Config.Credentials",
		} {
			require.ErrorContains(t, err, problem)
		}
	})
	t.Run("requires name servers, group and topics", func(t *testing.T) {
		_, err := New(storetest.NewMemory(), Config{})
		for _, field := range []string{"NameServers", "Group", "Topics"} {
			require.ErrorContains(t, err, field)
		}
		_, err = NewSubscriber(SubscriberConfig{})
		for _, field := range []string{"NameServers", "Group", "Topics"} {
			require.ErrorContains(t, err, field)
		}
	})
	t.Run("C07 refuses an immunity that eats up the checks", func(t *testing.T) {
		for immunity, ok := range map[time.Duration]bool{
			0: true, time.Minute: true, 5 * time.Minute: true, 600 * time.Second: false, time.Second: false, -1: false, 30500 * time.Millisecond: false,
		} {
			cfg := testConfig()
			cfg.Immunity = immunity
			_, err := New(storetest.NewMemory(), cfg)
			if ok {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "Config.Immunity")
			}
		}
	})
	t.Run("a half carries its immunity", func(t *testing.T) {
		m := halfMessage(newHalf(message("a"), 1), "owner", 60)
		require.Equal(t, "60", m.GetProperty(primitive.PropertyCheckImmunityTimeInSeconds))
	})
}

func TestInterpretSend(t *testing.T) {
	for text, class := range map[string]error{
		"CODE: 13, DESC: the message body is too long":    txmsg.ErrRefused,
		"CODE: 16, DESC: the broker rejects transactions": txmsg.ErrRefused,
		"CODE: 17, DESC: topic[t] not exist":              txmsg.ErrNoRoute,
		"CODE: 14, DESC: service not available now":       txmsg.ErrOutage,
		"request timeout": txmsg.ErrOutage,
		"dial tcp 127.0.0.1:10911: connect: refused CODE: 3": txmsg.ErrOutage,
	} {
		require.ErrorIs(t, interpretSend(nil, errors.New(text)), class, text)
	}
	require.ErrorIs(t, interpretSend(nil, nil), txmsg.ErrOutage)
	require.NoError(t, interpretSend(&primitive.TransactionSendResult{SendResult: &primitive.SendResult{Status: primitive.SendOK}}, nil))
}

func TestSelector(t *testing.T) {
	halves := newRegistry()
	s := selector{halves: halves}
	queues := make([]*primitive.MessageQueue, 8)
	for i := range queues {
		queues[i] = &primitive.MessageQueue{QueueId: i}
	}
	pick := func(key string, try int) int {
		m := message("a")
		m.Key = key
		h := newHalf(m, try)
		halves.add(h)
		return s.Select(halfMessage(h, "owner", 0), queues, "").QueueId
	}
	t.Run("keeps a key in one queue", func(t *testing.T) {
		for range 20 {
			require.Equal(t, pick("k", 1), pick("k", 1))
		}
	})
	t.Run("spreads messages without a key, and second tries", func(t *testing.T) {
		unkeyed, second := map[int]bool{}, map[int]bool{}
		for range 200 {
			unkeyed[pick("", 1)], second[pick("k", 2)] = true, true
		}
		require.Greater(t, len(unkeyed), 1)
		require.Greater(t, len(second), 1)
	})
}

func TestLibraryLogger(t *testing.T) {
	t.Run("writes no bodies, demotes what is expected, and survives what is fatal", func(t *testing.T) {
		var out bytes.Buffer
		var logger rlog.Logger = libraryLogger{slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		secret := primitive.NewMessage("orders", []byte("SECRET"))
		logger.Error("executeLocalTransaction but state unexpected", map[string]any{"message": secret, "topic": "orders"})
		logger.Warning("consumeMessageCurrently error", map[string]any{rlog.LogKeyMessages: []*primitive.Message{secret}, rlog.LogKeyUnderlayError: errors.New("why")})
		logger.Fatal("the end", nil)
		require.NotContains(t, out.String(), "SECRET")
		require.Contains(t, out.String(), "topic=orders")
		require.Contains(t, out.String(), "underlayError=why")
		require.NotContains(t, out.String(), "level=WARN")
		require.Contains(t, out.String(), "level=ERROR")
	})
}

func TestOrder(t *testing.T) {
	fetch := func(t *testing.T, o *order, count int) []*primitive.MessageExt {
		queue := &primitive.MessageQueue{Topic: "t", QueueId: 1}
		batch := &hooks.FilterMessageContext{MQ: queue}
		for i := range count {
			m := &primitive.MessageExt{QueueOffset: int64(i)}
			m.Topic, m.Queue = "t", queue
			batch.Msg = append(batch.Msg, m)
		}
		msgs, err := o.fetch(batch)
		require.NoError(t, err)
		return msgs
	}
	t.Run("messages of a key have their turns in the order of the queue, whatever order they arrive in", func(t *testing.T) {
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				o := newOrder()
				start := time.Now()
				msgs := append(fetch(t, o, 100), fetch(t, o, 100)...)
				var mu sync.Mutex
				got := map[string][]int{}
				running := map[string]int{}
				var group sync.WaitGroup
				for _, i := range rand.Perm(200) {
					group.Go(func() {
						time.Sleep(rand.N(100 * time.Millisecond))
						key := fmt.Sprint(i % 7)
						leave := o.enter(msgs[i], key)
						defer leave()
						mu.Lock()
						running[key]++
						if running[key] > 1 {
							t.Error("two of a key at once")
						}
						got[key] = append(got[key], i)
						mu.Unlock()
						time.Sleep(rand.N(time.Millisecond))
						mu.Lock()
						running[key]--
						mu.Unlock()
					})
				}
				group.Wait()
				for _, order := range got {
					require.IsIncreasing(t, order)
				}
				require.Empty(t, o.keys)
				require.Less(t, time.Since(start), lost)
			})
		}
	})
	t.Run("messages that were fetched and never arrive hold the later ones up once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOrder()
			start := time.Now()
			for _, m := range fetch(t, o, 20)[10:] {
				o.enter(m, "k")()
			}
			for _, m := range fetch(t, o, 20) {
				o.enter(m, "k")()
			}
			require.Equal(t, lost, time.Since(start))
		})
	})
	t.Run("a message whose fetch was not seen does not wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOrder()
			fetch(t, o, 3)
			start := time.Now()
			o.enter(&primitive.MessageExt{}, "k")()
			require.Zero(t, time.Since(start))
		})
	})
}

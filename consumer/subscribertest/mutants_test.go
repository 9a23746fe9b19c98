package subscribertest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/subscribertest"
	"github.com/txmsg/txmsg-go/txmsg"
)

// mutantVariable names the mutant that a child process runs the suite on.
const mutantVariable = "TXMSG_TEST_SUBSCRIBER_MUTANT"

type deliver = func(ctx context.Context, d txmsg.Delivery) error

// mutant is a subscriber that breaks one sentence of the contract, and the test that must see it.
type mutant struct {
	name, killedBy string
	run            func(ctx context.Context, inner consumer.Subscriber, deliver deliver) error
}

var mutants = []mutant{
	{
		"acknowledges what was refused", "acknowledge/what_was_refused_comes_again_as_it_was",
		around(func(ctx context.Context, d txmsg.Delivery, deliver deliver) error { _ = deliver(ctx, d); return nil }),
	},
	{
		"forgets an acknowledgement", "acknowledge/what_was_acknowledged_does_not_come_again_after_a_clean_stop",
		around(func(ctx context.Context, d txmsg.Delivery, deliver deliver) error {
			err := deliver(ctx, d)
			if d.Message.Key == "key-3" {
				return context.Canceled
			}
			return err
		}),
	},
	{
		"lower-cases headers", "delivery/fields_survive_byte_for_byte",
		around(func(ctx context.Context, d txmsg.Delivery, deliver deliver) error {
			headers := map[string]string{}
			for name, value := range d.Message.Headers {
				headers[strings.ToLower(name)] = value
			}
			d.Message.Headers = headers
			return deliver(ctx, d)
		}),
	},
	{
		"drops empty bodies", "delivery/fields_survive_byte_for_byte",
		around(func(ctx context.Context, d txmsg.Delivery, deliver deliver) error {
			if len(d.Message.Body) == 0 {
				return nil
			}
			return deliver(ctx, d)
		}),
	},
	{
		"gives foreign messages a new ID every time", "foreign/a_foreign_message_has_an_ID_that_its_copies_share",
		around(func(ctx context.Context, d txmsg.Delivery, deliver deliver) error {
			if strings.HasPrefix(d.Message.ID, "memory/") {
				d.Message.ID = txmsg.NewID()
			}
			return deliver(ctx, d)
		}),
	},
	{
		"hides malformed messages", "foreign/a_malformed_message_is_delivered_as_such",
		around(func(ctx context.Context, d txmsg.Delivery, deliver deliver) error {
			d.Malformed = nil
			return deliver(ctx, d)
		}),
	},
	{"delivers one at a time", "order/several_keys_are_delivered_at_once", oneAtATime},
	{"delivers a key's messages at once", "order/a_key's_messages_come_one_after_the_other,_in_order", allAtOnce},
	{"goes on behind a refused message", "order/a_refused_message_comes_again_before_the_later_ones_of_its_key", retriesLater},
	{"loses a refused message on a stop", "order/nothing_after_a_refused_message_is_acknowledged", retriesLater},
	{
		"ends the calls under way", "stop/waits_for_the_calls_under_way_and_stores_what_they_acknowledge",
		func(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
			return inner.Run(ctx, func(_ context.Context, d txmsg.Delivery) error { return deliver(ctx, d) })
		},
	},
	{
		"leaves the calls under way behind", "stop/waits_for_the_calls_under_way_and_stores_what_they_acknowledge",
		func(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
			go func() { _ = inner.Run(ctx, deliver) }()
			<-ctx.Done()
			return nil
		},
	},
	{
		"returns the end of its context", "stop/an_idle_subscriber_returns_nil",
		func(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
			_ = inner.Run(ctx, deliver)
			return ctx.Err()
		},
	},
}

func around(f func(ctx context.Context, d txmsg.Delivery, deliver deliver) error) func(context.Context, consumer.Subscriber, deliver) error {
	return func(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
		return inner.Run(ctx, func(ctx context.Context, d txmsg.Delivery) error { return f(ctx, d, deliver) })
	}
}

func oneAtATime(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
	var mu sync.Mutex
	return inner.Run(ctx, func(ctx context.Context, d txmsg.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		return deliver(ctx, d)
	})
}

// allAtOnce acknowledges before the message is handled.
func allAtOnce(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	return inner.Run(ctx, func(ctx context.Context, d txmsg.Delivery) error {
		calls.Go(func() { _ = deliver(ctx, d) })
		return nil
	})
}

// retriesLater acknowledges a refused message and tries it again in memory, when the next one of its key has been delivered.
func retriesLater(ctx context.Context, inner consumer.Subscriber, deliver deliver) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	var mu sync.Mutex
	count := map[string]int{} // of messages delivered, by key
	delivered := func(key string, more int) int {
		mu.Lock()
		defer mu.Unlock()
		count[key] += more
		return count[key]
	}
	return inner.Run(ctx, func(call context.Context, d txmsg.Delivery) error {
		err := deliver(call, d)
		key := d.Message.Key
		so := delivered(key, 1)
		if err != nil {
			calls.Go(func() {
				for ctx.Err() == nil && (delivered(key, 0) == so || deliver(call, d) != nil) {
					<-time.After(time.Millisecond)
				}
			})
		}
		return nil
	})
}

type mutated struct {
	inner consumer.Subscriber
	run   func(ctx context.Context, inner consumer.Subscriber, deliver deliver) error
}

func (m mutated) Run(ctx context.Context, deliver func(context.Context, txmsg.Delivery) error) error {
	return m.run(ctx, m.inner, deliver)
}

// TestMutant runs the suite on one mutant, in the child process of TestSuiteKills.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantVariable)
	if name == "" {
		return
	}
	for _, m := range mutants {
		if m.name == name {
			h := harness(&subscribertest.Memory{})
			whole := h.Subscriber
			h.Patience = time.Second
			h.Subscriber = func(t testing.TB, group string, topics ...string) consumer.Subscriber {
				return mutated{whole(t, group, topics...), m.run}
			}
			subscribertest.Run(t, h)
			return
		}
	}
	t.Fatalf("no mutant is called %q", name)
}

func TestSuiteKills(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			topic, test, _ := strings.Cut(m.killedBy, "/")
			run := fmt.Sprintf("-test.run=^TestMutant$/^%s$/^%s$", topic, regexp.QuoteMeta(test))
			child := exec.CommandContext(t.Context(), os.Args[0], run, "-test.v")
			child.Env = append(os.Environ(), mutantVariable+"="+m.name)
			output, err := child.CombinedOutput()
			require.Error(t, err, "the suite passed")
			require.Contains(t, string(output), "--- FAIL: TestMutant/"+m.killedBy+" ")
		})
	}
}

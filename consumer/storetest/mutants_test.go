package storetest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
)

// mutantVariable names the mutant that a child process runs the suite on.
const mutantVariable = "TXMSG_TEST_CONSUMER_STORE_MUTANT"

type harnessOf = storetest.Harness[*storetest.Tx]

// mutant is a store that breaks one sentence of the contract, and the test that must see it.
type mutant struct {
	name, killedBy string
	mutate         func(h *harnessOf)
}

// store is a Memory with some methods replaced.
type store struct {
	*storetest.Memory
	mark  func(ctx context.Context, tx *storetest.Tx, name, id string) (bool, error)
	bury  func(ctx context.Context, letter consumer.DeadLetter) error
	prune func(ctx context.Context, retention time.Duration, limit int) (int, error)
}

func (s *store) Mark(ctx context.Context, tx *storetest.Tx, name, id string) (bool, error) {
	return s.mark(ctx, tx, name, id)
}

func (s *store) Bury(ctx context.Context, letter consumer.DeadLetter) error {
	return s.bury(ctx, letter)
}

func (s *store) PruneInbox(ctx context.Context, retention time.Duration, limit int) (int, error) {
	return s.prune(ctx, retention, limit)
}

func replaced(f func(s *store, h *harnessOf)) func(h *harnessOf) {
	return func(h *harnessOf) {
		m := h.Store.(*storetest.Memory)
		s := &store{m, m.Mark, m.Bury, m.PruneInbox}
		f(s, h)
		h.Store = s
	}
}

var mutants = []mutant{
	{"is always first", "Mark/is_first_once_after_a_commit", replaced(func(s *store, _ *harnessOf) {
		s.mark = func(context.Context, *storetest.Tx, string, string) (bool, error) { return true, nil }
	})},
	{"knows one consumer", "Mark/knows_consumers_and_messages_apart", replaced(func(s *store, _ *harnessOf) {
		s.mark = func(ctx context.Context, tx *storetest.Tx, _, id string) (bool, error) {
			return s.Memory.Mark(ctx, tx, "payments", id)
		}
	})},
	{"marks outside the transaction", "Mark/leaves_nothing_when_its_transaction_is_rolled_back", replaced(func(s *store, _ *harnessOf) {
		s.mark = func(ctx context.Context, _ *storetest.Tx, name, id string) (bool, error) {
			own, err := s.Begin(ctx, nil)
			if err != nil {
				return false, err
			}
			first, err := s.Memory.Mark(ctx, own.Tx(), name, id)
			if err != nil {
				return false, err
			}
			return first, own.Commit(ctx)
		}
	})},
	{"does not wait", "simultaneous_Mark/waits,_and_is_first_after_a_rollback", replaced(func(s *store, _ *harnessOf) {
		s.mark = func(ctx context.Context, tx *storetest.Tx, name, id string) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			first, err := s.Memory.Mark(ctx, tx, name, id)
			if ctx.Err() != nil {
				return false, nil
			}
			return first, err
		}
	})},
	{"waits for every transaction", "simultaneous_Mark/of_another_message_does_not_wait", replaced(func(s *store, _ *harnessOf) {
		s.mark = func(ctx context.Context, tx *storetest.Tx, name, id string) (bool, error) {
			if _, err := s.Memory.Mark(ctx, tx, "the table", "lock"); err != nil {
				return false, err
			}
			return s.Memory.Mark(ctx, tx, name, id)
		}
	})},
	{"keeps the first letter", "Bury/the_same_again_replaces_it", replaced(func(s *store, _ *harnessOf) {
		s.bury = func(ctx context.Context, letter consumer.DeadLetter) error {
			for _, have := range s.Memory.Letters(letter.Consumer) {
				if have.Message.ID == letter.Message.ID {
					return nil
				}
			}
			return s.Memory.Bury(ctx, letter)
		}
	})},
	{"keeps every letter", "Bury/several_at_once", replaced(func(s *store, h *harnessOf) {
		var letters []consumer.DeadLetter
		turn := make(chan struct{}, 1)
		s.bury = func(_ context.Context, letter consumer.DeadLetter) error {
			turn <- struct{}{}
			letters = append(letters, letter)
			<-turn
			return nil
		}
		h.Letters = func(_ testing.TB, name string) []consumer.DeadLetter {
			return slices.DeleteFunc(slices.Clone(letters), func(l consumer.DeadLetter) bool { return l.Consumer != name })
		}
	})},
	{"loses the offset", "Bury/keeps_every_field", replaced(func(s *store, _ *harnessOf) {
		s.bury = func(ctx context.Context, letter consumer.DeadLetter) error {
			letter.Source.Offset = int64(int32(letter.Source.Offset))
			return s.Memory.Bury(ctx, letter)
		}
	})},
	{"cuts errors", "Bury/keeps_every_field", replaced(func(s *store, _ *harnessOf) {
		s.bury = func(ctx context.Context, letter consumer.DeadLetter) error {
			letter.Errors = slices.DeleteFunc(slices.Clone(letter.Errors), func(text string) bool { return text == "" })
			return s.Memory.Bury(ctx, letter)
		}
	})},
	{"prunes without a limit", "PruneInbox/removes_old_rows,_at_most_limit_at_a_time", replaced(func(s *store, _ *harnessOf) {
		s.prune = func(ctx context.Context, retention time.Duration, _ int) (int, error) {
			return s.Memory.PruneInbox(ctx, retention, 1<<20)
		}
	})},
	{"prunes the young", "PruneInbox/keeps_what_is_younger_than_retention", replaced(func(s *store, _ *harnessOf) {
		s.prune = func(ctx context.Context, _ time.Duration, limit int) (int, error) {
			return s.Memory.PruneInbox(ctx, 0, limit)
		}
	})},
}

// TestMutant runs the suite on one mutant, in the child process of TestSuiteKills.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantVariable)
	if name == "" {
		return
	}
	for _, m := range mutants {
		if m.name == name {
			storetest.Run(t, func(*testing.T) harnessOf {
				h := harness(&storetest.Memory{})
				h.Patience = time.Second
				m.mutate(&h)
				return h
			})
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

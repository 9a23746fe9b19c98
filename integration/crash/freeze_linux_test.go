package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
)

// A relay is frozen in the middle of a batch, its lease runs out, another one takes over and is frozen too, the first wakes up
// and goes on as if nothing had happened, then the second does, while a third process goes on writing.
func TestFrozenRelay(t *testing.T) {
	t.Parallel()
	kafka := services.Kafka(t)
	for _, at := range []point{after(read), before(publish), after(publish), before(settle), after(settle), before(lease)} {
		t.Run("C22 frozen "+string(at), func(t *testing.T) {
			t.Parallel()
			w := newTableWorld(t, "localtable/postgres/kafka", newPostgresBase, kafka, topic.Kafka)
			writer := w.start(t, plan{Writers: 2, Mute: true})
			sleeper := w.start(t, plan{Refuse: true, Point: at, Pass: 2 + rand.N(3), Freeze: true})
			sleeper.awaitFrozen(t)

			// The second one is frozen as well, when it has read and before it has sent: what the sleeper wakes up with still
			// stands in the table as it was, and only the lanes' owner and epoch say that it is not its own any more.
			second := w.start(t, plan{Refuse: true, Point: before(publish), Pass: 1, Freeze: true})
			second.awaitFrozen(t)
			require.Contains(t, second.reported("lanes"), fmt.Sprint(localtable.Lanes), "lanes of the second relay")
			sleeper.wake(t)
			if at == before(publish) || at == after(publish) || at == before(settle) {
				await(t, "the sleeper to try to settle what it had", func() bool {
					sleeper.RequireAlive(t)
					return len(sleeper.reported("stale"))+len(sleeper.reported("failed")) > 0
				})
			}
			second.wake(t)
			await(t, "the two to share the lanes", func() bool {
				sleeper.RequireAlive(t)
				second.RequireAlive(t)
				half := fmt.Sprint(localtable.Lanes / 2)
				return last(sleeper.reported("lanes")) == half && last(second.reported("lanes")) == half
			})
			for _, changed := range sleeper.reported("stale") {
				require.Equal(t, "0", changed, "rows that the sleeper settled after it had lost them")
			}

			writer.end(t)
			committed := w.committed(t)
			w.awaitDrained(t, second)
			sleeper.end(t)
			second.end(t)
			require.Zero(t, w.unsent(t), "rows of the local table")
			w.requireHanded(t, committed, sleeper, second)
			judge(t, committed, w.topics.Read(t, w.plan.Topic), true)
		})
	}
}

func last(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[len(texts)-1]
}

// awaitFrozen waits until the child has frozen itself: it says so before it does.
func (c *child) awaitFrozen(t *testing.T) {
	t.Helper()
	c.awaitReached(t)
	await(t, "the process to stop", func() bool {
		c.RequireAlive(t)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Command.Process.Pid))
		require.NoError(t, err)
		_, state, _ := strings.Cut(string(text), ") ") // after the program's name
		return strings.HasPrefix(state, "T")
	})
}

// wake ends the freezing.
func (c *child) wake(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Command.Process.Signal(syscall.SIGCONT))
}

// freeze stops the process until it is woken. A signal to the process may stop another thread first; one to this thread stops it
// before the call returns.
func freeze() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), syscall.SIGSTOP)
}

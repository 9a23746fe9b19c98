package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
)

// A relay is frozen in the middle of a batch, its lease runs out, another one takes over, and it wakes up and goes on as if nothing
// had happened, while a third process goes on writing.
func TestFrozenRelay(t *testing.T) {
	t.Parallel()
	kafka := services.Kafka(t)
	for _, at := range []point{after(read), before(publish), after(publish), before(settle), after(settle), before(lease)} {
		t.Run("C22 frozen "+string(at), func(t *testing.T) {
			t.Parallel()
			w := newTableWorld(t, "localtable/postgres/kafka", newPostgresBase, kafka, topic.Kafka)
			writer := w.start(t, plan{Writers: 2, Mute: true})
			sleeper := w.start(t, plan{Refuse: true, Point: at, Pass: 2 + rand.N(3), Freeze: true})
			sleeper.awaitReached(t)

			second := w.start(t, plan{Refuse: true})
			await(t, "the second relay to hold every lane and to settle", func() bool {
				second.requireAlive(t)
				return slices.Contains(second.reported("lanes"), fmt.Sprint(localtable.Lanes)) && len(second.reported("settled")) > 5
			})
			require.NoError(t, sleeper.command.Process.Signal(syscall.SIGCONT))
			await(t, "the sleeper to hold lanes again", func() bool {
				sleeper.requireAlive(t)
				lanes := sleeper.reported("lanes")
				return len(lanes) > 0 && lanes[len(lanes)-1] == fmt.Sprint(localtable.Lanes/2)
			})
			if at == before(publish) || at == after(publish) || at == before(settle) {
				await(t, "the sleeper to try to settle what it had", func() bool {
					return len(sleeper.reported("stale"))+len(sleeper.reported("failed")) > 0
				})
			}
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

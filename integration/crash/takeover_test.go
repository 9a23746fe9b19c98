package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/integration/topic"
	"github.com/txmsg/txmsg-go/localtable"
)

// TestTakeover measures, so nothing runs beside it.
func TestTakeover(t *testing.T) {
	t.Run("C21 what a dead relay had in hand is sent within a lease and a poll", func(t *testing.T) {
		var pool *pgxpool.Pool
		open := func(t *testing.T) (b base) {
			b, pool = newPostgres(t)
			return b
		}
		w := newTableWorld(t, "localtable/postgres/kafka", open, services.Kafka(t), topic.Kafka)
		_, err := pool.Exec(context.Background(), `INSERT INTO txmsg_message (destination, topic, key, body)
SELECT 'default', $1, 'key-' || n, convert_to(n::text, 'UTF8') FROM generate_series(1, 200) n`, w.plan.Topic)
		require.NoError(t, err)
		dying := w.start(t, plan{Point: before(publish), Pass: 1})
		dying.awaitReached(t)
		dying.awaitKilled(t)

		died := time.Now()
		living := w.start(t, plan{})
		w.awaitDrained(t, living)
		require.Less(t, time.Since(died), 15*time.Second, "time until all was sent")
		living.end(t)
		require.Equal(t, []string{fmt.Sprint(localtable.Lanes)}, living.reported("expired"), "lanes that were taken over from the dead relay")
		ids := map[string]bool{}
		read := w.topics.Read(t, w.plan.Topic)
		for _, d := range read {
			ids[d.Message.ID] = true
		}
		require.Len(t, ids, 200)
		require.Len(t, read, 200, "records: the dead relay had sent none")
	})
}

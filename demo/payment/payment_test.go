package payment

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/demo/sqldb"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// shelf is a broker that takes everything; the relay does not run here.
type shelf struct{ localtable.Broker }

func (shelf) Check(txmsg.Message) error { return nil }

func TestEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	const created, cancelled = "order.created", "order.cancelled"
	for _, row := range []struct {
		name      string
		amount    int64
		events    []string
		state     State
		charged   int64
		announced []string
	}{
		{"charged", 100, []string{created}, Succeeded, 100, []string{"payment.succeeded"}},
		{"charged once", 100, []string{created, created}, Succeeded, 100, []string{"payment.succeeded"}},
		{"declined", 131, []string{created}, Failed, 0, []string{"payment.failed"}},
		{"unanswered", 147, []string{created}, Failed, 0, []string{"payment.failed"}},
		{"slow", 159, []string{created}, Succeeded, 159, []string{"payment.succeeded"}},
		{"cancelled later", 100, []string{created, cancelled}, Refunded, 0, []string{"payment.succeeded", "payment.refunded"}},
		{"refunded once", 100, []string{created, cancelled, cancelled}, Refunded, 0, []string{"payment.succeeded", "payment.refunded"}},
		{"cancelled first", 100, []string{cancelled, created}, Void, 0, []string{"payment.void"}},
		{"failed, then cancelled", 131, []string{created, cancelled}, Failed, 0, []string{"payment.failed"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "payment.db"), sqlite.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			require.NoError(t, db.Migrate(t.Context()))
			messenger, err := localtable.New(db, shelf{}, localtable.Config{})
			require.NoError(t, err)
			provider := NewProvider(time.Millisecond)
			service, err := New(t.Context(), sqldb.SQLite{DB: db.Pool()}, provider, "payments")
			require.NoError(t, err)

			for _, event := range row.events {
				require.NoError(t, messenger.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
					body := fmt.Appendf(nil, `{"id":"o1","amount":%d}`, row.amount)
					return service.Handle(ctx, tx, txmsg.Message{Type: event, Key: "o1", Body: body}, out)
				}))
			}

			payments, err := service.All(t.Context())
			require.NoError(t, err)
			require.Equal(t, row.state, payments["o1"].State)
			require.Equal(t, row.charged, provider.Charged("o1"))
			rows, err := db.Read(t.Context(), "default", []localtable.Lane{{Number: 0}}, 10)
			require.NoError(t, err)
			var announced []string
			for _, read := range rows {
				announced = append(announced, read.Message.Type)
			}
			require.Equal(t, row.announced, announced)
		})
	}
}

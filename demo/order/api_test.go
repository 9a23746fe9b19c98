package order

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/database/sqlite"
	"github.com/txmsg/txmsg-go/demo/sqldb"
	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/txmsg"
)

// shelf is a broker that keeps what it gets; the tests of this package do not run the relay, they read the table.
type shelf struct{ localtable.Broker }

func (shelf) Check(txmsg.Message) error { return nil }

type bundle struct {
	server  *httptest.Server
	service *Service[*sql.Tx]
	db      *sqlite.DB
}

func setup(t *testing.T) bundle {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "order.db"), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Migrate(t.Context()))
	messenger, err := localtable.New(db, shelf{}, localtable.Config{})
	require.NoError(t, err)
	service, err := New(t.Context(), sqldb.SQLite{DB: db.Pool()}, messenger, "orders")
	require.NoError(t, err)
	server := httptest.NewServer(NewAPI(service, slog.New(slog.DiscardHandler)))
	t.Cleanup(server.Close)
	return bundle{server: server, service: service, db: db}
}

func (b bundle) do(t *testing.T, method, path, key, media, body string) (int, http.Header, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, got
}

func (b bundle) announced(t *testing.T) (types []string) {
	t.Helper()
	rows, err := b.db.Read(t.Context(), "default", []localtable.Lane{{Number: 0}}, 1000)
	require.NoError(t, err)
	for _, row := range rows {
		types = append(types, row.Message.Type)
	}
	return types
}

func TestBadRequestsAreProblems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const js = "application/json"
	good := `{"customer":"Ada","amount":100}`
	for _, row := range []struct {
		name, method, path, key, media, body string
		status                               int
		kind                                 string
	}{
		{"no key", "POST", "/orders", "", js, good, 400, "idempotency-key"},
		{"key with a space", "POST", "/orders", "a b", js, good, 400, "idempotency-key"},
		{"bad JSON", "POST", "/orders", "k", js, `{"customer":`, 400, "json"},
		{"empty body", "POST", "/orders", "k", js, ``, 400, "json"},
		{"two objects", "POST", "/orders", "k", js, good + good, 400, "json"},
		{"an array", "POST", "/orders", "k", js, `[]`, 400, "json"},
		{"unknown field", "POST", "/orders", "k", js, `{"customer":"Ada","amount":1,"state":"paid"}`, 400, "json"},
		{"fraction", "POST", "/orders", "k", js, `{"customer":"Ada","amount":1.5}`, 400, "json"},
		{"overflow", "POST", "/orders", "k", js, `{"customer":"Ada","amount":9223372036854775808}`, 400, "json"},
		{"zero", "POST", "/orders", "k", js, `{"customer":"Ada","amount":0}`, 422, "amount"},
		{"negative", "POST", "/orders", "k", js, `{"customer":"Ada","amount":-1}`, 422, "amount"},
		{"too much", "POST", "/orders", "k", js, `{"customer":"Ada","amount":100000001}`, 422, "amount"},
		{"no customer", "POST", "/orders", "k", js, `{"amount":1}`, 400, "json"},
		{"no amount", "POST", "/orders", "k", js, `{"customer":"Ada"}`, 400, "json"},
		{"null", "POST", "/orders", "k", js, `null`, 400, "json"},
		{"null amount", "POST", "/orders", "k", js, `{"customer":"Ada","amount":null}`, 400, "json"},
		{"twice", "POST", "/orders", "k", js, `{"customer":"Ada","amount":10,"\u0061mount":20}`, 400, "json"},
		{"another case", "POST", "/orders", "k", js, `{"Customer":"Ada","amount":10}`, 400, "json"},
		{"text", "POST", "/orders", "k", js, `{"customer":"Ada","amount":"10"}`, 400, "json"},
		{"not UTF-8", "POST", "/orders", "k", js, "{\"customer\":\"\xff\",\"amount\":10}", 400, "json"},
		{"blank customer", "POST", "/orders", "k", js, `{"customer":" ","amount":1}`, 422, "customer"},
		{"escape", "POST", "/orders", "k", js, `{"customer":"a\u001b","amount":1}`, 422, "customer"},
		{"other charset", "POST", "/orders", "k", js + "; charset=iso-8859-1", good, 415, "media-type"},
		{"NUL", "POST", "/orders", "k", js, `{"customer":"a\u0000","amount":1}`, 422, "customer"},
		{"media type", "POST", "/orders", "k", "text/plain", good, 415, "media-type"},
		{"no media type", "POST", "/orders", "k", "", good, 415, "media-type"},
		{"too large", "POST", "/orders", "k", js, `{"customer":"` + strings.Repeat("x", MaxBodyBytes) + `","amount":1}`, 413, "too-large"},
		{"too large behind", "POST", "/orders", "k", js, good + strings.Repeat(" ", MaxBodyBytes), 413, "too-large"},
		{"method", "DELETE", "/orders", "k", js, "", 405, "method"},
		{"unknown path", "GET", "/order", "", "", "", 404, "not-found"},
		{"unknown order", "GET", "/orders/7", "", "", "", 404, "not-found"},
		{"cancel of an unknown order", "POST", "/orders/7/cancel", "", "", "", 404, "not-found"},
		{"limit", "GET", "/orders?limit=x", "", "", "", 400, "limit"},
		{"limit 0", "GET", "/orders?limit=0", "", "", "", 400, "limit"},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, header, body := b.do(t, row.method, row.path, row.key, row.media, row.body)
			require.Equal(t, row.status, status, "%s", body)
			require.Equal(t, "application/problem+json", header.Get("Content-Type"))
			var problem Problem
			require.NoError(t, json.Unmarshal(body, &problem))
			require.Equal(t, "/problems/"+row.kind, problem.Type)
			require.Equal(t, row.status, problem.Status)
			require.NotEmpty(t, problem.Detail)
			if status == http.StatusMethodNotAllowed {
				require.Contains(t, header.Get("Allow"), "POST")
			}
		})
	}
	require.Empty(t, b.announced(t))
}

func TestOneKeyIsOneOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const clients = 16
	ids := make([]string, clients)
	fresh := make([]bool, clients)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			var o Order
			o, fresh[i], errs[i] = b.service.Place(context.Background(), "one", Request{Customer: "Ada", Amount: 100})
			ids[i] = o.ID
		})
	}
	wg.Wait()
	created := 0
	for i := range clients {
		require.NoError(t, errs[i])
		require.Equal(t, ids[0], ids[i])
		if fresh[i] {
			created++
		}
	}
	require.Equal(t, 1, created)
	require.Equal(t, []string{TypeCreated}, b.announced(t))

	status, _, body := b.do(t, "POST", "/orders", "one", "application/json", `{"customer":"Ada","amount":200}`)
	require.Equal(t, http.StatusUnprocessableEntity, status, "%s", body)
	status, _, body = b.do(t, "POST", "/orders", "one", "application/json", `{"customer":"Ada","amount":100}`)
	require.Equal(t, http.StatusOK, status, "%s", body)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o, _, err := b.service.Place(t.Context(), "k", Request{Customer: "Ada", Amount: 100})
	require.NoError(t, err)
	for range 2 { // the second finds it done
		status, _, body := b.do(t, "POST", "/orders/"+o.ID+"/cancel", "", "", "")
		require.Equal(t, http.StatusOK, status, "%s", body)
	}
	require.Equal(t, []string{TypeCreated, TypeCancelled}, b.announced(t))
}

func TestPaymentsDecideAnOrderOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		first, second string
		want          State
	}{
		{"payment.succeeded", "payment.failed", Paid},
		{"payment.failed", "payment.succeeded", Failed},
		{"cancel", "payment.succeeded", Cancelled},
		{"payment.refunded", "payment.succeeded", Paid},
	} {
		t.Run(row.first+" then "+row.second, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			o, _, err := b.service.Place(t.Context(), "k", Request{Customer: "Ada", Amount: 100})
			require.NoError(t, err)
			for _, event := range []string{row.first, row.second} {
				if event == "cancel" {
					_, err = b.service.Cancel(t.Context(), o.ID)
				} else {
					err = b.service.messenger.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx, out txmsg.Publisher) error {
						return b.service.Handle(ctx, tx, txmsg.Message{Type: event, Body: fmt.Appendf(nil, `{"order_id":%q}`, o.ID)}, out)
					})
				}
				require.NoError(t, err)
			}
			got, err := b.service.Get(t.Context(), o.ID)
			require.NoError(t, err)
			require.Equal(t, row.want, got.State)
		})
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	status, header, body := b.do(t, "GET", "/", "", "", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, header.Get("Content-Security-Policy"), "script-src 'self'")
	require.Contains(t, string(body), "/page.js")
	status, _, _ = b.do(t, "GET", "/page.js", "", "", "")
	require.Equal(t, http.StatusOK, status)
}

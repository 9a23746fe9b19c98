package order

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/txmsg/txmsg-go/txmsg"
)

// maxList is the most orders that one answer lists.
const maxList = 500

// orders is what the API needs of the service, whatever the type of its transactions.
type orders interface {
	Place(ctx context.Context, key string, request Request) (placed Order, fresh bool, err error)
	Cancel(ctx context.Context, id string) (Order, error)
	Get(ctx context.Context, id string) (Order, error)
	List(ctx context.Context, limit int) ([]Order, error)
	Counts(ctx context.Context) (map[State]int, error)
}

type api struct {
	orders orders
	log    *slog.Logger
}

// NewAPI returns the HTTP API of the order service and its page at /. Every error is a problem document (RFC 9457).
func NewAPI(service orders, log *slog.Logger) http.Handler {
	a := &api{orders: service, log: log}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, panicked any) {
		a.log.Error("request panicked", "path", c.FullPath(), "panic", panicked)
		abort(c, http.StatusInternalServerError, "internal", "the request could not be handled")
	}))
	engine.NoRoute(func(c *gin.Context) { abort(c, http.StatusNotFound, "not-found", "there is nothing at this path") })
	engine.NoMethod(func(c *gin.Context) {
		abort(c, http.StatusMethodNotAllowed, "method", "this path does not allow "+c.Request.Method)
	})
	engine.GET("/", servePage)
	engine.GET("/page.js", serveScript)
	engine.POST("/orders", a.place)
	engine.GET("/orders", a.list)
	engine.GET("/orders/:id", a.get)
	engine.POST("/orders/:id/cancel", a.cancel)
	return engine
}

func (a *api) place(c *gin.Context) {
	keys := c.Request.Header.Values("Idempotency-Key")
	if len(keys) != 1 || !validKey(keys[0]) {
		abort(c, http.StatusBadRequest, "idempotency-key", "the header Idempotency-Key must be there once, as 1 to 255 visible ASCII characters")
		return
	}
	var request Request
	if !decode(c, &request, "customer", "amount") {
		return
	}
	if request.Amount <= 0 || request.Amount > MaxAmount {
		abort(c, http.StatusUnprocessableEntity, "amount", fmt.Sprintf("amount must be 1 to %d, got %d", int64(MaxAmount), request.Amount))
		return
	}
	if strings.TrimSpace(request.Customer) == "" || utf8.RuneCountInString(request.Customer) > 200 || strings.ContainsFunc(request.Customer, unicode.IsControl) {
		abort(c, http.StatusUnprocessableEntity, "customer", "customer must be 1 to 200 characters, none of them a control character")
		return
	}
	placed, fresh, err := a.orders.Place(c.Request.Context(), keys[0], request)
	if err != nil {
		a.refuse(c, err)
		return
	}
	c.Header("Location", "/orders/"+placed.ID)
	status := http.StatusCreated
	if !fresh {
		status = http.StatusOK
	}
	c.JSON(status, placed)
}

func (a *api) cancel(c *gin.Context) {
	cancelled, err := a.orders.Cancel(c.Request.Context(), c.Param("id"))
	if err != nil {
		a.refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, cancelled)
}

func (a *api) get(c *gin.Context) {
	found, err := a.orders.Get(c.Request.Context(), c.Param("id"))
	if err != nil {
		a.refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, found)
}

func (a *api) list(c *gin.Context) {
	limit := 100
	if text, ok := c.GetQuery("limit"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxList {
			abort(c, http.StatusBadRequest, "limit", fmt.Sprintf("limit must be 1 to %d, got %q", maxList, text))
			return
		}
		limit = n
	}
	listed, err := a.orders.List(c.Request.Context(), limit)
	if err != nil {
		a.refuse(c, err)
		return
	}
	counts, err := a.orders.Counts(c.Request.Context())
	if err != nil {
		a.refuse(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"orders": listed, "counts": counts})
}

// refuse answers with what an error of the service means to the caller.
func (a *api) refuse(c *gin.Context, err error) {
	switch {
	case errors.Is(err, ErrNotFound):
		abort(c, http.StatusNotFound, "not-found", fmt.Sprintf("there is no order %q", c.Param("id")))
	case errors.Is(err, ErrNotPending):
		abort(c, http.StatusConflict, "not-pending", err.Error())
	case errors.Is(err, ErrKeyReused):
		abort(c, http.StatusUnprocessableEntity, "idempotency-key", err.Error())
	case errors.Is(err, txmsg.ErrOutcomeUnknown):
		c.Header("Retry-After", "1")
		abort(c, http.StatusServiceUnavailable, "outcome-unknown", "the order may or may not be saved: ask again with the same Idempotency-Key")
	case c.Request.Context().Err() != nil:
		abort(c, http.StatusServiceUnavailable, "cancelled", "the request was cancelled")
	default:
		a.log.Error("request failed", "path", c.FullPath(), "error", err)
		c.Header("Retry-After", "1")
		abort(c, http.StatusServiceUnavailable, "unavailable", "nothing was saved: ask again with the same Idempotency-Key")
	}
}

func validKey(key string) bool {
	return len(key) >= 1 && len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' })
}

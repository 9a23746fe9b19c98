package order

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Problem is an error document by RFC 9457.
type Problem struct {
	Type   string `json:"type"` // a relative reference that names the kind
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// abort ends the request with a problem document.
func abort(c *gin.Context, status int, kind, detail string) {
	body, err := json.Marshal(Problem{Type: "/problems/" + kind, Title: http.StatusText(status), Status: status, Detail: detail})
	if err != nil {
		body = nil // four plain fields always encode
	}
	c.Abort()
	c.Data(status, "application/problem+json", body)
}

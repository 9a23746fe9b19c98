package order

import (
	_ "embed"
	"net/http"

	"github.com/gin-gonic/gin"
)

var (
	//go:embed page.html
	page []byte
	//go:embed page.js
	script []byte
)

func servePage(c *gin.Context) {
	c.Header("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'")
	c.Data(http.StatusOK, "text/html; charset=utf-8", page)
}

func serveScript(c *gin.Context) { c.Data(http.StatusOK, "text/javascript; charset=utf-8", script) }

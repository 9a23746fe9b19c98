package postgres_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// hole is a proxy before the server that lets requests vanish on their way: the client has sent them, the server never
// gets them, and sees no end of the connection either.
type hole struct {
	address string
	mu      sync.Mutex
	links   []*link
}

type link struct {
	client, upstream net.Conn
	lost             atomic.Bool
}

// lose lets all that is sent from now on through the connections that are open vanish.
func (h *hole) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		l.lost.Store(true)
	}
}

// throughHole returns a hole before the server at dsn, and the DSN that leads through it.
func throughHole(t *testing.T, dsn string) (*hole, string) {
	t.Helper()
	server, err := url.Parse(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &hole{address: server.Host}
	var group sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); h.close(); group.Wait() })
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { h.serve(client) })
		}
	})
	server.Host = listener.Addr().String()
	return h, server.String()
}

func (h *hole) serve(client net.Conn) {
	upstream, err := net.Dial("tcp", h.address)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, upstream: upstream}
	h.mu.Lock()
	h.links = append(h.links, l)
	h.mu.Unlock()
	go func() {
		_, _ = io.Copy(client, upstream)
		_ = client.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		if l.lost.Load() {
			continue
		}
		if _, err := upstream.Write(buffer[:n]); err != nil {
			break
		}
	}
	if !l.lost.Load() {
		_ = upstream.Close()
	}
}

// close lets the server see that the clients are gone.
func (h *hole) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		_ = l.client.Close()
		_ = l.upstream.Close()
	}
}

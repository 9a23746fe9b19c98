package rocketmq

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// commitProxy stands before PostgreSQL and loses one COMMIT, or the answer to it, when told to. It reads statements from the
// wire, so they must be sent as text.
type commitProxy struct {
	dsn    string
	server string

	mu    sync.Mutex
	conns map[net.Conn]bool
	next  map[string]fault // by the client's address
}

type fault struct {
	losing loss
	hit    func()
}

type loss int

const (
	loseReply loss = iota + 1
	loseRequest
)

func newCommitProxy(t *testing.T, dsn string) *commitProxy {
	server, err := url.Parse(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &commitProxy{server: server.Host, conns: map[net.Conn]bool{}, next: map[string]fault{}}
	server.Host = listener.Addr().String()
	p.dsn = server.String()
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		group.Wait()
	})
	return p
}

// start is the Start of a fault of the suite.
func (p *commitProxy) start(losing loss) func(t *testing.T, tx pgx.Tx, hit func()) (stop func()) {
	return func(_ *testing.T, tx pgx.Tx, hit func()) func() {
		client := tx.Conn().PgConn().Conn().LocalAddr().String()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next[client] = fault{losing, hit}
		return func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.next, client)
		}
	}
}

// take returns what is to be lost if request is the COMMIT that a fault waits for.
func (p *commitProxy) take(client net.Conn, request []byte) fault {
	if !bytes.Contains(request, []byte("commit\x00")) {
		return fault{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[client.RemoteAddr().String()]
}

func (p *commitProxy) serve(client net.Conn) {
	upstream, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[upstream] = true, true
	p.mu.Unlock()
	closeBoth := sync.OnceFunc(func() {
		_, _ = client.Close(), upstream.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, upstream)
	})
	var dropped atomic.Pointer[func()] // the next reply is dropped, and this called
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer closeBoth()
		copyChunks(client, upstream, func([]byte) bool {
			if hit := dropped.Load(); hit != nil {
				(*hit)()
				return false
			}
			return true
		})
	}()
	copyChunks(upstream, client, func(request []byte) bool {
		switch f := p.take(client, request); f.losing {
		case loseReply:
			dropped.Store(&f.hit)
		case loseRequest:
			f.hit()
			return false
		}
		return true
	})
	closeBoth()
	<-done
}

// copyChunks copies until pass refuses a chunk.
func copyChunks(to io.Writer, from io.Reader, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !pass(buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

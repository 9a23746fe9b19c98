package services_test

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
)

// echo is a server that returns every line and counts them.
type echo struct {
	address string
	lines   atomic.Int64
}

func newEcho(t *testing.T) *echo {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	e := &echo{address: listener.Addr().String()}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go e.serve(connection)
		}
	}()
	return e
}

func (e *echo) serve(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	lines := bufio.NewReader(connection)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		e.lines.Add(1)
		if _, err := io.WriteString(connection, line); err != nil {
			return
		}
	}
}

func dial(t *testing.T, address string) net.Conn {
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func ask(connection net.Conn, patience time.Duration) error {
	if _, err := io.WriteString(connection, "hello\n"); err != nil {
		return err
	}
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.ReadFull(connection, make([]byte, len("hello\n")))
	return err
}

func TestProxyPassesEverythingAtFirst(t *testing.T) {
	t.Parallel()
	proxy := services.NewProxy(t, "tcp://"+newEcho(t).address)
	require.NoError(t, ask(dial(t, proxy.Addr()), 5*time.Second))
}

func TestProxyReplacesAddress(t *testing.T) {
	t.Parallel()
	server := newEcho(t).address
	proxy := services.NewProxy(t, server)
	require.Equal(t, "postgres://me@"+proxy.Addr()+"/db?a=b", proxy.Replace("postgres://me@"+server+"/db?a=b"))
}

func TestProxyCutBreaksOldConnectionsAndRefusesNew(t *testing.T) {
	t.Parallel()
	proxy := services.NewProxy(t, newEcho(t).address)
	old := dial(t, proxy.Addr())
	require.NoError(t, ask(old, 5*time.Second))

	proxy.Cut()
	require.Error(t, ask(old, 5*time.Second))
	_, err := net.Dial("tcp", proxy.Addr())
	require.Error(t, err)

	proxy.Restore()
	require.NoError(t, ask(dial(t, proxy.Addr()), 5*time.Second))
}

func TestProxySwallowsRepliesAndPassesRequests(t *testing.T) {
	t.Parallel()
	server := newEcho(t)
	proxy := services.NewProxy(t, server.address)
	old := dial(t, proxy.Addr())
	require.NoError(t, ask(old, 5*time.Second))

	proxy.SwallowReplies()
	require.ErrorContains(t, ask(old, 200*time.Millisecond), "timeout")
	require.ErrorContains(t, ask(dial(t, proxy.Addr()), 200*time.Millisecond), "timeout")
	require.Eventually(t, func() bool { return server.lines.Load() == 3 }, 5*time.Second, time.Millisecond)

	proxy.Restore()
	require.NoError(t, ask(dial(t, proxy.Addr()), 5*time.Second))
}

func TestProxyDelaysReplies(t *testing.T) {
	t.Parallel()
	proxy := services.NewProxy(t, newEcho(t).address)
	connection := dial(t, proxy.Addr())
	for _, delay := range []time.Duration{300 * time.Millisecond, 100 * time.Millisecond} {
		proxy.Delay(delay)
		began := time.Now()
		require.NoError(t, ask(connection, 5*time.Second))
		require.GreaterOrEqual(t, time.Since(began), delay)
	}
	proxy.Delay(0)
	require.NoError(t, ask(connection, 5*time.Second))
}

package rocketmq

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/integration/services"
	"github.com/txmsg/txmsg-go/rocketmq/internal/remoting"
)

// detour puts a proxy before the broker, and a name server before the name server that sends clients there: the broker is
// shared with other tests, and only this test's clients meet what the proxy does.
func detour(t *testing.T, nameServer string) (address string, proxy *services.Proxy) {
	brokers, err := remoting.Brokers(t.Context(), nameServer)
	require.NoError(t, err)
	require.Len(t, brokers, 1)
	proxy = services.NewProxy(t, brokers[0])
	require.Len(t, proxy.Addr(), len(brokers[0]), "the proxy's address must be as long as the broker's")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var group sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", nameServer)
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, client, upstream)
			mu.Unlock()
			group.Go(func() {
				_, _ = io.Copy(upstream, client)
				_ = upstream.Close()
			})
			group.Go(func() {
				copyFrames(client, upstream, []byte(brokers[0]), []byte(proxy.Addr()))
				_ = client.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return listener.Addr().String(), proxy
}

// copyFrames copies the answers of a name server with one address in place of another.
func copyFrames(to io.Writer, from io.Reader, old, replacement []byte) {
	for {
		var length [4]byte
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		if _, err := to.Write(append(length[:], bytes.ReplaceAll(frame, old, replacement)...)); err != nil {
			return
		}
	}
}

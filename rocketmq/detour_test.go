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
	return redirect(t, nameServer, brokers[0], proxy.Addr()), proxy
}

// redirect returns the address of a name server that gives another address for a broker's.
func redirect(t *testing.T, nameServer, broker, instead string) (address string) {
	require.Len(t, instead, len(broker), "the proxy's address must be as long as the broker's")
	return editFrames(t, nameServer, func() (requests, answers edit) {
		return keep, func(frame []byte) []byte { return bytes.ReplaceAll(frame, []byte(broker), []byte(instead)) }
	})
}

// edit returns what to pass on in place of a frame: as much, or nil for nothing.
type edit func(frame []byte) []byte

func keep(frame []byte) []byte { return frame }

// editFrames puts a proxy before server; connect is called for each connection.
func editFrames(t *testing.T, server string, connect func() (requests, answers edit)) (address string) {
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
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, client, upstream)
			mu.Unlock()
			requests, answers := connect()
			group.Go(func() {
				copyFrames(upstream, client, requests)
				_ = upstream.Close()
			})
			group.Go(func() {
				copyFrames(client, upstream, answers)
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
	return listener.Addr().String()
}

// copyFrames copies until one side ends.
func copyFrames(to io.Writer, from io.Reader, edit edit) {
	for {
		var length [4]byte
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		if frame = edit(frame); frame == nil {
			continue
		}
		if _, err := to.Write(append(length[:], frame...)); err != nil {
			return
		}
	}
}

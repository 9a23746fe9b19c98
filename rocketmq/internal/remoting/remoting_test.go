package remoting

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadMasters(t *testing.T) {
	for body, want := range map[string]map[string]string{
		`{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:20911"}}}}`:                      {"a": "127.0.0.1:10911"},
		`{"brokerAddrTable":{"a":{"brokerAddrs":{"1":"s:1","0":"m:1"}},"b":{"brokerAddrs":{"0":"m:2","10":"x"}}}}`: {"a": "m:1", "b": "m:2"},
		`{"brokerAddrTable":{"a":{"brokerAddrs":{1:"s:1"}}},"clusterAddrTable":{"c":["a"]}}`:                       {},
		`{"brokerAddrTable":{}}`: {},
	} {
		got, err := readMasters([]byte(body))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := readMasters([]byte("no JSON"))
	require.Error(t, err)
}

func TestMissing(t *testing.T) {
	t.Run("ends in bounded time when no name server answers", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		silent := listener.Addr().String() // accepts, and says nothing
		start := time.Now()
		_, err = Missing(t.Context(), []string{silent, silent}, []string{"t"})
		require.ErrorContains(t, err, silent)
		require.GreaterOrEqual(t, time.Since(start), nameServerTimeout, "each gets its time")
		require.Less(t, time.Since(start), 4*nameServerTimeout)
	})
	t.Run("ends with its context", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err = Missing(ctx, []string{listener.Addr().String()}, []string{"t"})
		require.Error(t, err)
		require.Less(t, time.Since(start), nameServerTimeout)
	})
	t.Run("is an error when what answers is not RocketMQ", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
				_ = conn.Close()
			}
		}()
		_, err = Missing(t.Context(), []string{listener.Addr().String()}, []string{"t"})
		require.ErrorContains(t, err, "not an answer of RocketMQ")
	})
}

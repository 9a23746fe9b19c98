package remoting

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/require"
)

// serve answers each request on a new address as answer says, and sends the requests to the channel.
func serve(t *testing.T, answer func(request header) (code int, body string)) (address string, requests <-chan header) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	seen := make(chan header, 100)
	talk := func(conn net.Conn) {
		defer conn.Close()
		for {
			var prefix [8]byte
			if _, err := io.ReadFull(conn, prefix[:]); err != nil {
				return
			}
			text := make([]byte, binary.BigEndian.Uint32(prefix[4:]))
			if _, err := io.ReadFull(conn, text); err != nil {
				return
			}
			var request header
			if json.Unmarshal(text, &request) != nil {
				return
			}
			seen <- request
			code, body := answer(request)
			text, err := json.Marshal(header{Code: code, Opaque: request.Opaque, Remark: "remark"})
			if err != nil {
				return
			}
			frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(text)+len(body)))
			frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
			if _, err := conn.Write(append(append(frame, text...), body...)); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go talk(conn)
		}
	}()
	return listener.Addr().String(), seen
}

// silent returns an address that accepts connections and says nothing.
func silent(t *testing.T) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// cluster returns the address of a name server that knows the masters of these brokers.
func cluster(t *testing.T, brokers map[string]string) (address string) {
	var entries []string
	for name, broker := range brokers {
		entries = append(entries, `"`+name+`":{"brokerAddrs":{0:"`+broker+`"}}`)
	}
	address, _ = serve(t, func(header) (int, string) {
		return success, `{"brokerAddrTable":{` + strings.Join(entries, ",") + `}}`
	})
	return address
}

func TestStoreOffsets(t *testing.T) {
	queue := primitive.MessageQueue{Topic: "t", BrokerName: "a", QueueId: 3}
	type offsets = map[primitive.MessageQueue]int64
	// within is a context that ends while a test waits for it.
	within := func(t *testing.T, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	accept := func(header) (int, string) { return success, "" }

	t.Run("asks the broker, with a signature if it has a key", func(t *testing.T) {
		broker, requests := serve(t, accept)
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, gone.Close())
		nameServers := []string{gone.Addr().String(), cluster(t, map[string]string{"a": broker})}
		fields := map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "3", "commitOffset": "20", "bname": "a"}
		require.NoError(t, StoreOffsets(t.Context(), nameServers, primitive.Credentials{}, "g", offsets{queue: 20}))
		request := <-requests
		require.Equal(t, updateConsumerOffset, request.Code)
		require.Zero(t, request.Flag, "an answer is expected")
		require.Equal(t, fields, request.ExtFields)

		credentials := primitive.Credentials{AccessKey: "key", SecretKey: "secret", SecurityToken: "token"}
		require.NoError(t, StoreOffsets(t.Context(), nameServers, credentials, "g", offsets{queue: 20}))
		fields["AccessKey"], fields["SecurityToken"] = "key", "token"
		fields["Signature"] = "kuLgsl8dW7SQpN3p8ydjQTocL2g=" // printf keytokena20g3t | openssl dgst -sha1 -hmac secret -binary | base64
		require.Equal(t, fields, (<-requests).ExtFields)
	})
	t.Run("does not wait for a broker that hangs before it asks the others", func(t *testing.T) {
		broker, requests := serve(t, accept)
		nameServer := cluster(t, map[string]string{"hangs": silent(t), "a": broker, "b": broker})
		a, b := queue, queue
		b.BrokerName = "b"
		err := StoreOffsets(within(t, time.Second), []string{nameServer}, primitive.Credentials{}, "g", offsets{
			a: 1, b: 2, {Topic: "t", BrokerName: "hangs"}: 3, {Topic: "t", BrokerName: "unknown"}: 4,
		})
		require.ErrorContains(t, err, "broker hangs: ")
		require.ErrorContains(t, err, "broker unknown: ")
		require.NotContains(t, err.Error(), "broker a")
		require.Len(t, requests, 2)
		stored := []string{(<-requests).ExtFields["bname"], (<-requests).ExtFields["bname"]}
		require.ElementsMatch(t, []string{"a", "b"}, stored)
	})
	t.Run("tries again what is not confirmed, and nothing else", func(t *testing.T) {
		var refusals atomic.Int32
		broker, requests := serve(t, func(request header) (int, string) {
			if request.ExtFields["queueId"] == "3" && refusals.Add(1) <= 2 {
				return topicNotExist, ""
			}
			return success, ""
		})
		nameServers := []string{cluster(t, map[string]string{"a": broker})}
		other := queue
		other.QueueId = 4
		require.NoError(t, StoreOffsets(t.Context(), nameServers, primitive.Credentials{}, "g", offsets{queue: 20, other: 7}))
		counts := map[string]int{}
		for range len(requests) {
			counts[(<-requests).ExtFields["queueId"]]++
		}
		require.Equal(t, map[string]int{"3": 3, "4": 1}, counts)

		refusals.Store(-1000)
		err := StoreOffsets(within(t, time.Second), nameServers, primitive.Credentials{}, "g", offsets{queue: 20})
		require.ErrorContains(t, err, "broker a: store offset of t/3: answer 17: remark")
	})
}

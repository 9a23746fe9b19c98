package remoting

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"testing"

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

func TestStoreOffsets(t *testing.T) {
	broker, requests := serve(t, func(request header) (int, string) {
		if request.ExtFields["topic"] == "missing" {
			return topicNotExist, ""
		}
		return success, ""
	})
	nameServer, _ := serve(t, func(header) (int, string) {
		return success, `{"brokerAddrTable":{"a":{"brokerAddrs":{0:"` + broker + `"}}}}`
	})
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	nameServers := []string{gone.Addr().String(), nameServer}
	queue := primitive.MessageQueue{Topic: "t", BrokerName: "a", QueueId: 3}
	store := func(credentials primitive.Credentials, queue primitive.MessageQueue) error {
		return StoreOffsets(t.Context(), nameServers, credentials, "g", map[primitive.MessageQueue]int64{queue: 20})
	}

	fields := map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "3", "commitOffset": "20", "bname": "a"}
	require.NoError(t, store(primitive.Credentials{}, queue))
	request := <-requests
	require.Equal(t, updateConsumerOffset, request.Code)
	require.Zero(t, request.Flag, "an answer is expected")
	require.Equal(t, fields, request.ExtFields)

	require.NoError(t, store(primitive.Credentials{AccessKey: "key", SecretKey: "secret", SecurityToken: "token"}, queue))
	fields["AccessKey"], fields["SecurityToken"] = "key", "token"
	fields["Signature"] = "kuLgsl8dW7SQpN3p8ydjQTocL2g=" // printf keytokena20g3t | openssl dgst -sha1 -hmac secret -binary | base64
	require.Equal(t, fields, (<-requests).ExtFields)

	require.ErrorContains(t, store(primitive.Credentials{}, primitive.MessageQueue{Topic: "t", BrokerName: "b"}), "broker b")
	queue.Topic = "missing"
	require.ErrorContains(t, store(primitive.Credentials{}, queue), "store offset of missing/3: answer 17: remark")
}

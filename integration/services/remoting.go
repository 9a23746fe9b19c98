package services

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
)

// The requests of RocketMQ's protocol that tell whether it serves. A client library would keep connections and routes
// for the whole process.
const (
	getBrokerRuntimeInfo = 28
	getBrokerClusterInfo = 106
)

// masterAddress finds the address of each broker with id 0 in an answer whose JSON has bare numbers as keys.
var masterAddress = regexp.MustCompile(`"?\b0"?:"([^"]+)"`)

// rocketmqReady returns nil when the name server knows a broker and every broker it knows answers.
func rocketmqReady(ctx context.Context, nameServer string) error {
	brokers, err := brokersAt(ctx, nameServer)
	if err != nil {
		return err
	}
	if len(brokers) == 0 {
		return fmt.Errorf("name server %s knows no broker", nameServer)
	}
	for _, broker := range brokers {
		if _, err := remote(ctx, broker, getBrokerRuntimeInfo); err != nil {
			return fmt.Errorf("broker %s: %w", broker, err)
		}
	}
	return nil
}

// brokersAt returns the addresses of the masters registered at a name server.
func brokersAt(ctx context.Context, nameServer string) ([]string, error) {
	body, err := remote(ctx, nameServer, getBrokerClusterInfo)
	if err != nil {
		return nil, fmt.Errorf("name server %s: %w", nameServer, err)
	}
	var addresses []string
	for _, match := range masterAddress.FindAllSubmatch(body, -1) {
		addresses = append(addresses, string(match[1]))
	}
	return addresses, nil
}

// remote sends one request without a body and returns the body of the answer. A frame is its length, the length of its
// header (whose highest byte zero means JSON), header, body.
func remote(ctx context.Context, address string, code int) ([]byte, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := connection.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	header, err := json.Marshal(map[string]any{"code": code, "language": "GO", "version": 0, "opaque": 1, "flag": 0})
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	if _, err := connection.Write(append(frame, header...)); err != nil {
		return nil, err
	}
	return readAnswer(connection)
}

func readAnswer(r io.Reader) ([]byte, error) {
	const most = 1 << 24
	var lengths struct{ Frame, Header uint32 }
	if err := binary.Read(r, binary.BigEndian, &lengths); err != nil {
		return nil, err
	}
	headerLength := lengths.Header & 0xffffff
	if lengths.Frame > most || lengths.Frame < 4+headerLength {
		return nil, fmt.Errorf("frame of %d bytes with a header of %d", lengths.Frame, headerLength)
	}
	rest := make([]byte, lengths.Frame-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	var answer struct {
		Code   int    `json:"code"`
		Remark string `json:"remark"`
	}
	if err := json.Unmarshal(rest[:headerLength], &answer); err != nil {
		return nil, err
	}
	if answer.Code != 0 {
		return nil, fmt.Errorf("answer %d: %s", answer.Code, answer.Remark)
	}
	return rest[headerLength:], nil
}

// Package remoting asks RocketMQ's servers the few questions that its client cannot: within a context's time, and without a
// connection or a route that stays behind.
package remoting

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Codes of requests and answers (org.apache.rocketmq.remoting.protocol).
const (
	pullMessage          = 11
	updateConsumerOffset = 15
	updateAndCreateTopic = 17
	getRouteByTopic      = 105
	getClusterInfo       = 106

	success        = 0
	topicNotExist  = 17
	pullNotFound   = 19
	pullRetry      = 20
	pullOffsetMove = 21
)

// everyBroker is a topic that each broker has from its start.
const everyBroker = "SELF_TEST_TOPIC"

// nameServerTimeout is for all topics at one name server.
const nameServerTimeout = 2 * time.Second

// maxAnswer bounds the memory for an answer.
const maxAnswer = 64 << 20

// Missing returns those of topics that the name servers do not know. It is an error if none of them answers, or if no
// broker has registered with the one that did, as right after its start.
func Missing(ctx context.Context, nameServers []string, topics []string) (missing []string, err error) {
	err = firstAnswer(nameServers, func(server string) (err error) {
		missing, err = missingAt(ctx, server, topics)
		return err
	})
	return missing, err
}

// firstAnswer asks one name server after the other until one answers.
func firstAnswer(nameServers []string, ask func(server string) error) error {
	var failures []error
	first := rand.IntN(len(nameServers)) // or one that hangs would take the time of the others, always
	for i := range nameServers {
		server := nameServers[(first+i)%len(nameServers)]
		err := ask(server)
		if err == nil {
			return nil
		}
		failures = append(failures, fmt.Errorf("name server %s: %w", server, err))
	}
	return errors.Join(failures...)
}

func missingAt(ctx context.Context, nameServer string, topics []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, nameServerTimeout)
	defer cancel()
	conn, err := dial(ctx, nameServer)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	exists := func(topic string) (bool, error) {
		answer, err := conn.request(getRouteByTopic, map[string]string{"topic": topic})
		switch {
		case err != nil:
			return false, err
		case answer.Code == success:
			return true, nil
		case answer.Code == topicNotExist:
			return false, nil
		default:
			return false, fmt.Errorf("route of %s: %w", topic, answer.err())
		}
	}
	var missing []string
	for _, topic := range topics {
		ok, err := exists(topic)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, topic)
		}
	}
	if len(missing) > 0 {
		if ok, err := exists(everyBroker); err != nil || !ok {
			return nil, errors.Join(err, errors.New("no broker has registered"))
		}
	}
	return missing, nil
}

// CreateTopic makes a topic of so many queues on every master that the name server knows.
func CreateTopic(ctx context.Context, nameServer, topic string, queues int) error {
	brokers, err := Brokers(ctx, nameServer)
	if err != nil {
		return err
	}
	for _, broker := range brokers {
		if err := createTopicAt(ctx, broker, topic, queues); err != nil {
			return fmt.Errorf("broker %s: %w", broker, err)
		}
	}
	return nil
}

// Brokers returns the addresses of the masters that the name server knows. None is an error.
func Brokers(ctx context.Context, nameServer string) ([]string, error) {
	addresses, err := mastersAt(ctx, nameServer)
	return slices.Collect(maps.Values(addresses)), err
}

// masters returns the address of each broker's master, by the broker's name, from the first name server that answers.
func masters(ctx context.Context, nameServers []string) (addresses map[string]string, err error) {
	err = firstAnswer(nameServers, func(server string) (err error) {
		addresses, err = mastersAt(ctx, server)
		return err
	})
	return addresses, err
}

func mastersAt(ctx context.Context, nameServer string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, nameServerTimeout)
	defer cancel()
	conn, err := dial(ctx, nameServer)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := conn.request(getClusterInfo, nil)
	if err != nil {
		return nil, err
	}
	if answer.Code != success {
		return nil, fmt.Errorf("cluster info: %w", answer.err())
	}
	addresses, err := readMasters(answer.body)
	if err != nil {
		return nil, fmt.Errorf("cluster info: %w", err)
	}
	if len(addresses) == 0 {
		return nil, errors.New("no broker has registered")
	}
	return addresses, nil
}

func createTopicAt(ctx context.Context, broker, topic string, queues int) error {
	conn, err := dial(ctx, broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := conn.request(updateAndCreateTopic, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "perm": "6", "order": "false",
		"readQueueNums": strconv.Itoa(queues), "writeQueueNums": strconv.Itoa(queues),
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
	})
	if err == nil && answer.Code != success {
		err = fmt.Errorf("create topic %s: %w", topic, answer.err())
	}
	return err
}

// Pull reads messages of one queue from offset on, in the broker's own form, and returns the offset to go on from. It
// waits a while at the end of the queue, and then returns none.
func Pull(ctx context.Context, broker, group, topic string, queue int, offset int64) (messages []byte, next int64, err error) {
	conn, err := dial(ctx, broker)
	if err != nil {
		return nil, offset, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	const suspend, subscription = 2, 4
	answer, err := conn.request(pullMessage, map[string]string{
		"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(queue), "queueOffset": strconv.FormatInt(offset, 10),
		"maxMsgNums": "32", "sysFlag": strconv.Itoa(suspend | subscription), "commitOffset": "0", "suspendTimeoutMillis": "2000",
		"subscription": "*", "subVersion": "0", "expressionType": "TAG",
	})
	if err != nil {
		return nil, offset, err
	}
	switch answer.Code {
	case success, pullNotFound, pullRetry, pullOffsetMove:
		next, err := strconv.ParseInt(answer.ExtFields["nextBeginOffset"], 10, 64)
		return answer.body, next, err
	default:
		return nil, offset, fmt.Errorf("pull %s/%d: %w", topic, queue, answer.err())
	}
}

// bareKey is a number that stands as a key without quotes, as the name server writes it.
var bareKey = regexp.MustCompile(`([{,])([0-9]+):`)

// readMasters finds the address of each broker with id 0, by the broker's name.
func readMasters(body []byte) (map[string]string, error) {
	var info struct {
		Brokers map[string]struct {
			Addresses map[string]string `json:"brokerAddrs"`
		} `json:"brokerAddrTable"`
	}
	if err := json.Unmarshal(bareKey.ReplaceAll(body, []byte(`$1"$2":`)), &info); err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for name, broker := range info.Brokers {
		if address, ok := broker.Addresses["0"]; ok {
			addresses[name] = address
		}
	}
	return addresses, nil
}

type connection struct {
	net.Conn
	opaque int
}

// dial connects for the time of ctx, and for a few seconds if it has no end.
func dial(ctx context.Context, address string) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, err
	}
	return &connection{Conn: conn}, nil
}

type header struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int               `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
}

// answer is what came back.
type answer struct {
	header
	body []byte
}

func (a *answer) err() error { return fmt.Errorf("answer %d: %s", a.Code, a.Remark) }

// request sends one request without a body. A frame is its length, the length of its header (whose highest byte 0 means JSON),
// header, body.
func (c *connection) request(code int, fields map[string]string) (*answer, error) {
	c.opaque++
	text, err := json.Marshal(header{Code: code, Language: "GO", Opaque: c.opaque, ExtFields: fields})
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(text)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(text)))
	if _, err := c.Write(append(frame, text...)); err != nil {
		return nil, err
	}
	var prefix [8]byte
	if _, err := io.ReadFull(c, prefix[:]); err != nil {
		return nil, err
	}
	length, headerLength := binary.BigEndian.Uint32(prefix[:4]), binary.BigEndian.Uint32(prefix[4:])&0xffffff
	if length < 4 || length > maxAnswer || headerLength > length-4 {
		return nil, fmt.Errorf("not an answer of RocketMQ: length %d", length)
	}
	rest := make([]byte, length-4)
	if _, err := io.ReadFull(c, rest); err != nil {
		return nil, err
	}
	read := &answer{body: rest[headerLength:]}
	if err := json.Unmarshal(rest[:headerLength], &read.header); err != nil {
		return nil, fmt.Errorf("not an answer of RocketMQ: %w", err)
	}
	return read, nil
}

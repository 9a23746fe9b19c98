package rocketmq

import (
	"slices"
	"strconv"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/txmsg"
)

// Properties that travel beside those of [txmsg.ToWire]. They are stripped before a consumer sees the message.
const (
	propertyHalf  = "txmsg-half"  // the half's ID, under which its record stands
	propertyOwner = "txmsg-owner" // the database that holds the record
	propertyEmpty = "txmsg-empty" // the body is empty: the broker fails on a body of no bytes, so one byte stands for it
)

const (
	maxMessageBytes    = 4 << 20 // the broker's maxMessageSize
	maxPropertiesBytes = 30_000  // the broker keeps the length in 16 bits, and adds some of its own
)

// halfMessage returns the library's form of h. It is new each time: the library writes into what it is given.
func halfMessage(h *half, owner string, immunitySeconds int) *primitive.Message {
	m := plainMessage(h.message)
	m.WithProperty(propertyHalf, h.id)
	m.WithProperty(propertyOwner, owner)
	m.WithProperty(primitive.PropertyUniqueClientMessageIdKeyIndex, h.id)
	if immunitySeconds > 0 {
		m.WithProperty(primitive.PropertyCheckImmunityTimeInSeconds, strconv.Itoa(immunitySeconds))
	}
	return m
}

// plainMessage returns m with its wire headers as properties; its ID is also the key to look it up by in the broker.
func plainMessage(m txmsg.Message) *primitive.Message {
	body := m.Body
	if len(body) == 0 {
		body = []byte{0}
	}
	message := primitive.NewMessage(m.Topic, body)
	for name, value := range txmsg.ToWire(m) {
		message.WithProperty(name, value)
	}
	message.WithProperty(primitive.PropertyKeys, m.ID)
	if m.Key != "" {
		message.WithShardingKey(m.Key)
	}
	if len(m.Body) == 0 {
		message.WithProperty(propertyEmpty, "1")
	}
	return message
}

// propertiesBytes bounds the length of the properties of m's half as the library writes them.
func propertiesBytes(m txmsg.Message) int {
	const ours = 1024 // names and values that we and the library add
	size := ours + 2*(len(m.ID)+len(m.Key)) + len(m.Type)
	for name, value := range m.Headers {
		size += len(name) + len(value) + 2
	}
	return size
}

// delivery returns what a message of the library's is to a consumer.
func delivery(m *primitive.MessageExt) txmsg.Delivery {
	message, malformed := readMessage(m)
	source := txmsg.Source{Broker: "rocketmq", Topic: message.Topic, Offset: m.QueueOffset}
	if m.Queue != nil {
		source.Partition = m.Queue.BrokerName + "/" + strconv.Itoa(m.Queue.QueueId)
	}
	return txmsg.Delivery{Message: message, Source: source, Malformed: malformed}
}

func readMessage(m *primitive.MessageExt) (txmsg.Message, error) {
	headers := m.GetProperties()
	body := slices.Clip(m.Body) // its array is shared with the messages that came with it
	if headers[propertyEmpty] != "" {
		body = nil
	}
	// The place where the message was stored first: the broker keeps it when it moves the message to be tried again.
	place := headers[primitive.PropertyOriginMessageId]
	if place == "" {
		place = m.OffsetMsgId
	}
	for _, name := range []string{propertyHalf, propertyOwner, propertyEmpty} {
		delete(headers, name)
	}
	return txmsg.FromWire(m.Topic, body, headers, "rocketmq-"+place)
}

// readHalf returns what a check asks about.
func readHalf(m *primitive.MessageExt) checker.Half {
	message, _ := readMessage(m) // what could be read of it is enough
	return checker.Half{ID: m.GetProperty(propertyHalf), Owner: m.GetProperty(propertyOwner), Message: message}
}

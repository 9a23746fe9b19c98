package txmsg

// Delivery is one message as a broker delivered it.
type Delivery struct {
	Message Message
	Source  Source
	// Malformed is not nil when the broker's record could not be read as a message; Message holds what could.
	Malformed error
}

// Source is where a delivery stands in its broker, for logs and dead letters.
type Source struct {
	Broker    string // "kafka", "nats", "rocketmq"
	Topic     string
	Partition string // partition, queue or stream
	Offset    int64
}

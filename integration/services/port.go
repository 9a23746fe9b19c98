package services

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

const loopback = "127.0.0.1"

// Ports are taken below the range from which systems give outgoing connections their ports: one of those could take
// the port of a stopped server before it is started again.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// freePorts returns count consecutive ports on which nothing listened a moment ago.
func freePorts(count int) ([]int, error) {
	for range 1000 {
		ports := make([]int, count)
		first := lowestPort + rand.IntN(highestPort-lowestPort-count)
		free := true
		for i := range ports {
			ports[i] = first + i
			free = free && portFree(ports[i])
		}
		if free {
			return ports, nil
		}
	}
	return nil, errors.New("find free ports: none among 1000 choices")
}

// portFree asks about all local addresses, since a listener on any of them may be the one in the way.
func portFree(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

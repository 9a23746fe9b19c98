package fleet

import (
	"fmt"
	"hash/fnv"
)

// temper is how a message fares with the broker.
type temper int

const (
	welcome   temper = iota
	sometimes        // each call is refused with probability ½
	never            // every call is refused
)

// temperOf decides it for all processes alike: one message in a hundred is refused, half of these every time.
func temperOf(seed uint64, id string) temper {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%d/%s", seed, id)
	switch sum := hash.Sum64() % 1000; {
	case sum < 5:
		return never
	case sum < 10:
		return sometimes
	default:
		return welcome
	}
}

package fleet

import (
	"fmt"
	"hash/fnv"
)

// verdict is how a message fares with the broker.
type verdict int

const (
	accepted         verdict = iota
	refusedSometimes         // each call is refused with probability ½
	refusedAlways            // every call is refused
)

// verdictOf decides it for all processes alike: one message in a hundred is refused, half of these every time.
func verdictOf(seed uint64, id string) verdict {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%d/%s", seed, id)
	switch sum := hash.Sum64() % 1000; {
	case sum < 5:
		return refusedAlways
	case sum < 10:
		return refusedSometimes
	default:
		return accepted
	}
}

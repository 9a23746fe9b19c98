package fleet

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	planVariable = "TXMSG_FLEET_PLAN" // tells a test binary that it is a relay, and what it is to do
	sizeVariable = "TXMSG_FLEET"      // "full", or not set
	seedVariable = "TXMSG_FLEET_SEED" // of everything that is left to chance but the moment
)

// size is how much happens in a run.
type size struct {
	relays, writers, keys int
	messages              int
	lasting               time.Duration // of the writing, if the machine can
	lease                 time.Duration
	every                 time.Duration // between two faults
	restarts              int           // of the broker
}

var (
	small = size{relays: 5, writers: 4, keys: 100, messages: 2000, lasting: 8 * time.Second, lease: 2 * time.Second, every: time.Second, restarts: 1}
	full  = size{relays: 5, writers: 8, keys: 2000, messages: 100_000, lasting: 3 * time.Minute, lease: 3 * time.Second, every: 2 * time.Second, restarts: 2}
)

const maxAttempts = 3

func TestMain(m *testing.M) {
	if text := os.Getenv(planVariable); text != "" {
		os.Exit(beRelay(text))
	}
	os.Exit(m.Run())
}

func chosenSize(t *testing.T) size {
	t.Helper()
	text := os.Getenv(sizeVariable)
	require.Contains(t, []string{"", "full"}, text, sizeVariable)
	if text == "full" {
		return full
	}
	return small
}

func chosenSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return uint64(rand.Uint32())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, seedVariable)
	return seed
}

// chance is one of the sources of what is left to chance.
func chance(seed, source uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, source)) }

// Sources of chance. Those of the writers follow the last.
const (
	ofChaos = iota
	ofWriters
)

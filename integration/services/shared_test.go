package services

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSharedServerOutlivesGarbageCollection(t *testing.T) {
	t.Setenv(nats.variable, "")
	address := NATS(t)
	for range 3 {
		runtime.GC()
	}
	// A sweeper that was let go would need a moment to do its work.
	require.Never(t, func() bool { return nats.serves(t.Context(), address) != nil }, 500*time.Millisecond, 50*time.Millisecond)
	require.Equal(t, address, NATS(t))
}

package storetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/localtable"
	"github.com/txmsg/txmsg-go/localtable/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness[*storetest.Tx] {
		return harness(storetest.NewMemory(localtable.Lanes))
	})
}

func TestMemoryWithOneLane(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness[*storetest.Tx] { return harness(storetest.NewMemory(1)) })
}

func harness(m *storetest.Memory) storetest.Harness[*storetest.Tx] {
	return storetest.Harness[*storetest.Tx]{
		Store: m, Operator: m,
		Lanes: len(m.Owners()),
		Age: func(t testing.TB, messageID string, by time.Duration) {
			require.NoError(t, m.Age(messageID, by))
		},
		AgeDelivered: func(_ testing.TB, by time.Duration) { m.AgeDelivered(by) },
		Expire:       func(_ testing.TB, owner string) { m.Expire(owner) },
		Errors:       func(_ testing.TB, messageID string) []string { return m.Errors(messageID) },
		Cut:          func(testing.TB) { m.Cut() },
	}
}

package storetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/txmsg/txmsg-go/consumer"
	"github.com/txmsg/txmsg-go/consumer/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Harness[*storetest.Tx] { return harness(&storetest.Memory{}) })
}

func harness(m *storetest.Memory) storetest.Harness[*storetest.Tx] {
	return storetest.Harness[*storetest.Tx]{
		Store:    m,
		Database: m,
		Letters:  func(_ testing.TB, name string) []consumer.DeadLetter { return m.Letters(name) },
		Age: func(t testing.TB, name, messageID string, by time.Duration) {
			require.NoError(t, m.Age(name, messageID, by))
		},
	}
}

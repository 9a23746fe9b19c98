package storetest_test

import (
	"testing"

	"github.com/txmsg/txmsg-go/checker"
	"github.com/txmsg/txmsg-go/checker/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Harness[*storetest.MemoryTx]{
		Open:  func(*testing.T) checker.Store[*storetest.MemoryTx] { return storetest.NewMemory() },
		Again: func(_ *testing.T, s checker.Store[*storetest.MemoryTx]) checker.Store[*storetest.MemoryTx] { return s },
	})
}

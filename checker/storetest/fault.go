package storetest

import (
	"errors"

	"github.com/txmsg/txmsg-go/txmsg"
)

// ErrConflict is an error that [Memory.Conflict] knows.
var ErrConflict = errors.New("conflict with another transaction")

// Op names a call of [Memory] that can be made to fail.
type Op string

// The calls that can be made to fail.
const (
	OpIdentity Op = "identity"
	OpBegin    Op = "begin"
	OpRecord   Op = "record"
	OpForget   Op = "forget"
	OpFence    Op = "fence"
	OpCommit   Op = "commit"
	OpPrune    Op = "prune"
)

// Fault is how one call fails. The zero value is a call that works.
type Fault struct {
	Err   error           // is returned; a Commit rolls back
	Panic any             // is thrown
	Block <-chan struct{} // the call waits for it first, whatever its context says
	Lost  Lost            // of Commit
}

// Lost is what went missing of a COMMIT whose outcome is unknown.
type Lost int

// What can go missing.
const (
	LostReply  Lost = iota + 1 // the transaction is committed
	LostCommit                 // it stays open until [Memory.Reap] ends it
)

// Inject makes the next calls of op fail, one for each fault, in their order.
func (m *Memory) Inject(op Op, faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[op] = append(m.faults[op], faults...)
}

// Reap rolls back every transaction that records a half and is still open, as a server does with dead sessions.
func (m *Memory) Reap() {
	m.mu.Lock()
	var open []*MemoryTx
	for _, tx := range m.open {
		open = append(open, tx)
	}
	m.mu.Unlock()
	for _, tx := range open {
		tx.end(txmsg.RolledBack)
	}
}

func (m *Memory) fault(op Op) Fault {
	m.mu.Lock()
	var fault Fault
	if left := m.faults[op]; len(left) > 0 {
		fault, m.faults[op] = left[0], left[1:]
	}
	m.mu.Unlock()
	if fault.Block != nil {
		<-fault.Block
	}
	if fault.Panic != nil {
		panic(fault.Panic)
	}
	return fault
}

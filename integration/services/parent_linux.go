package services

import (
	"os/exec"
	"syscall"
)

// EndWithParent has the command, which is not started yet, killed when the thread that starts it ends, at the latest with its
// process. Other systems than Linux have no such thing: there a command outlives a test binary that is killed.
func EndWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

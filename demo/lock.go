package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes the folder and takes it for this process, until unlock or the process's end: the embedded NATS server would let
// a second one write to its files.
func lock(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("demo: data_dir: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("demo: data_dir: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("demo: data_dir %s is in use by another process: %w", folder, err)
	}
	return func() { _ = file.Close() }, nil // closing unlocks
}

package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process names one process for all time: a process id is given out again, with its start time it is not.
type process struct {
	id    int
	start string
}

// readProcess reads the file that a daemon's start wrote.
func readProcess(file string) (process, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return process{}, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return process{}, fmt.Errorf("%s: want a process id and a start time, got %q", file, text)
	}
	id, err := strconv.Atoi(fields[0])
	if err != nil {
		return process{}, fmt.Errorf("%s: %w", file, err)
	}
	return process{id: id, start: fields[1]}, nil
}

// processByID looks up the process that has the id now.
func processByID(id int) (process, error) {
	stat, err := processStat(id)
	if err != nil {
		return process{}, err
	}
	return process{id: id, start: stat[startTime]}, nil
}

// alive is false for a process that ended and waits to be reaped.
func (p process) alive() bool {
	stat, err := processStat(p.id)
	return err == nil && stat[startTime] == p.start && stat[state] != "Z" && stat[state] != "X"
}

func (p process) signal(signal syscall.Signal) error {
	if !p.alive() {
		return fmt.Errorf("process %d has ended", p.id)
	}
	return syscall.Kill(p.id, signal)
}

// signalTree signals the process and all that descend from it. The process itself comes first, so that a stopped one
// starts no more children while they are counted.
func (p process) signalTree(signals ...syscall.Signal) error {
	if err := p.signal(signals[0]); err != nil {
		return err
	}
	family := append([]int{p.id}, descendants(p.id)...)
	for _, signal := range signals {
		for _, id := range family {
			if err := syscall.Kill(id, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// children are all that descend from the process, as far as they still run.
func (p process) children() (children []process) {
	for _, id := range descendants(p.id) {
		if child, err := processByID(id); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// wait returns when the process has ended.
func (p process) wait(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for p.alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d still runs: %w", p.id, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Fields of /proc/*/stat counted from the one after the command name, the first that can hold no blank.
const (
	state     = 0
	parent    = 1
	startTime = 19
)

func processStat(id int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= startTime {
		return nil, fmt.Errorf("/proc/%d/stat: want more than %d fields, got %d", id, startTime, len(fields))
	}
	return fields, nil
}

func descendants(id int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed: Glob has no other error
	for _, file := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if stat, err := processStat(child); err == nil {
			if of, err := strconv.Atoi(stat[parent]); err == nil {
				children[of] = append(children[of], child)
			}
		}
	}
	var family []int
	for next := children[id]; len(next) > 0; next = next[1:] {
		family = append(family, next[0])
		next = append(next, children[next[0]]...)
	}
	return family
}

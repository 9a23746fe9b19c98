package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What /proc tells about processes; on other systems it tells nothing.
const (
	fieldParent = 1
	fieldTimes  = 11 // four of them: user and system, its own and its ended children's
	clockTicks  = 100
)

// processStat returns what follows the name in /proc/<pid>/stat.
func processStat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	end := strings.LastIndexByte(string(text), ')')
	return strings.Fields(string(text)[end+1:])
}

func parentOf(pid int) int {
	stat := processStat(pid)
	if len(stat) <= fieldParent {
		return 0
	}
	parent, _ := strconv.Atoi(stat[fieldParent]) // the kernel writes a number
	if name, err := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/comm"); err != nil || strings.TrimSpace(string(name)) != "postgres" {
		return 0
	}
	return parent
}

// cpu is the time in seconds that the server has used: its processes' own, and that of those which have ended.
func (s *server) cpu() (seconds float64) {
	if s.postmaster == 0 {
		return 0
	}
	files, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(file))
		stat := processStat(pid)
		if len(stat) < fieldTimes+4 || pid != s.postmaster && stat[fieldParent] != strconv.Itoa(s.postmaster) {
			continue
		}
		for _, ticks := range stat[fieldTimes : fieldTimes+4] {
			n, _ := strconv.ParseFloat(ticks, 64)
			seconds += n / clockTicks
		}
	}
	return seconds
}

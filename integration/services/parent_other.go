//go:build !linux

package services

import "os/exec"

// EndWithParent does nothing here.
func EndWithParent(*exec.Cmd) {}

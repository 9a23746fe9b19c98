//go:build !linux

package crash

// freeze is for the tests that only Linux has.
func freeze() { panic("no test here freezes a process") }

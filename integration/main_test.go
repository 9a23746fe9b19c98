package integration

import (
	"flag"
	"os"
	"testing"
)

// Tests here mostly wait for servers, so more of them run side by side than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

package txmsgtest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutantVariable makes TestMutant, in a child process, run the suite on the mutant that it names.
const mutantVariable = "TXMSGTEST_MUTANT"

// Every mutant fails the case that is meant for it, and says why. The suite cannot fail in this process without failing the
// test, so it runs in a child.
func TestSuiteKillsMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			pattern := "^TestMutant$/^" + regexp.QuoteMeta(strings.ReplaceAll(m.fails, " ", "_")) + "$"
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", pattern, "-test.v", "-test.timeout", "60s")
			child.Env = append(os.Environ(), mutantVariable+"="+m.name)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the mutant survived:\n%s", out)
			require.Contains(t, string(out), "--- FAIL: TestMutant/"+strings.ReplaceAll(m.fails, " ", "_"), "another case failed")
			require.Contains(t, string(out), m.says, "it failed for another reason")
		})
	}
}

// TestMutant is the child.
func TestMutant(t *testing.T) {
	name, ok := os.LookupEnv(mutantVariable)
	if !ok {
		return
	}
	for _, m := range mutants {
		if m.name == name {
			h := memoryHarness(m.faults)
			h.Wait = time.Second
			Run(t, h)
			return
		}
	}
	require.Fail(t, "no mutant is called "+name)
}

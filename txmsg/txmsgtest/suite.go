package txmsgtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run runs the conformance suite on a backend. Every case is a subtest named for the guarantee that it holds. The cases
// run in parallel and mostly wait: with a slow broker, go test's -parallel above the number of cores pays.
func Run[Tx any](t *testing.T, h Harness[Tx]) {
	t.Helper()
	h.setDefaults()
	require.NotNil(t, h.Open, "txmsgtest: Harness.Open is required")
	bundle := h.Open(t)
	require.Empty(t, h.missing(bundle), "txmsgtest: the bundle lacks required fields")

	// It looks at the goroutines of the whole process, so it goes first and alone.
	t.Run("Run returns nil when its context ends and leaves no goroutine", func(t *testing.T) { testLeaks(t, h) })

	var absent []string
	for _, c := range cases(h) {
		if c.needs != nil && !c.needs(bundle.Hooks) {
			absent = append(absent, c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newIdleWorld(t, h)
			if !c.idle {
				w.messenger, _ = w.start(t)
			}
			c.run(t, w)
		})
	}
	if len(absent) > 0 {
		t.Logf("not asked of this backend, for want of a hook or an ability: %s", strings.Join(absent, "; "))
	}
}

// testCase is one sentence of the contract.
type testCase[Tx any] struct {
	name  string
	needs func(Hooks[Tx]) bool // nil: nothing
	idle  bool                 // the case opens and runs its messengers itself
	run   func(t *testing.T, w *world[Tx])
}

func cases[Tx any](h Harness[Tx]) []testCase[Tx] {
	return slices.Concat(
		atomicCases[Tx](),
		nestedCases[Tx](),
		publisherCases[Tx](),
		payloadCases[Tx](),
		headerCases[Tx](),
		orderCases(h),
		delayCases(h),
		retryCases[Tx](),
		visibilityCases(h),
		commitCases[Tx](),
		contextCases[Tx](),
		poolCases[Tx](),
		processCases[Tx](),
		concurrentCases[Tx](),
	)
}

package crash

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// roundsVariable is how many rounds each point gets, 2 when it is not set.
const roundsVariable = "TXMSG_CRASH_ROUNDS"

func TestMain(m *testing.M) {
	if text := os.Getenv(planVariable); text != "" {
		os.Exit(beChild(text))
	}
	flag.Parse()
	// Rounds mostly wait for leases and checks, so more of them run side by side than there are cores.
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
	code := m.Run()
	results.print()
	os.Exit(code)
}

func rounds(t *testing.T) int {
	text := os.Getenv(roundsVariable)
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s must be a number of at least 1, got %q", roundsVariable, text)
	}
	return n
}

// results are what the rounds were like, for the table at the end.
var results table

type table struct {
	mu   sync.Mutex
	rows []row
}

// row is one point of one backend.
type row struct {
	backend    string
	point      point
	inFlight   []int // at each kill
	duplicates int
	asked      int // halves that checks decided
}

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

func (t *table) print() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.rows, func(a, b row) int { return cmp.Compare(a.backend, b.backend) })
	for _, r := range t.rows {
		slices.Sort(r.inFlight)
		fmt.Printf("crash: %-26s %-16s rounds %2d  in flight min %3d median %3d  duplicates %4d  decided by checks %4d\n",
			r.backend, r.point, len(r.inFlight), r.inFlight[0], r.inFlight[(len(r.inFlight)-1)/2], r.duplicates, r.asked)
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txmsg/txmsg-go/localtable"
)

// flat is how much more than its reference a figure may be, or how much less where more is better. An index with a thousand times
// the rows has two levels more. A poll passes them once in each lane, and where something is held once more for each row of its
// batch: so many buffers are allowed beside, and their time.
const (
	flat       = 1.2
	levels     = 2
	bufferTime = 1.0 / 500 // ms
	statusMost = 300       // ms
)

// allowed are buffers of a poll that finds so many rows.
func (p *site) allowed(rows int) float64 {
	if p.by == "" {
		rows = 0
	}
	return float64(levels * (localtable.Lanes + rows))
}

// amounts are how much the tables hold. All can be set, to try the command.
type amounts struct {
	archives        []int // delivered messages that are kept
	pending         int   // rows that are unsent, of which stuck stand behind one key's failed head
	stuck           int
	delayed         int // rows whose time has not come
	churned         int // messages that are delivered while a transaction keeps what is dead in the tables
	drained         int // messages of each drain
	passes          int
	patience, pause time.Duration // with autovacuum, and between two polls that only let the relay learn
}

// measureGrowth is the command that shows whether polls and drains cost the same however much there is. It needs a server of its own:
// a transaction that it leaves open keeps what is dead in every database of the server.
func measureGrowth(ctx context.Context, arguments []string) error {
	var a amounts
	flags := flag.NewFlagSet("bench growth", flag.ExitOnError)
	archives := flags.String("archive", "1000000,10000000", "delivered messages that are kept, separated by commas")
	flags.IntVar(&a.pending, "pending", 500_000, "unsent rows")
	flags.IntVar(&a.stuck, "stuck", 200_000, "rows of those behind one stuck key")
	flags.IntVar(&a.delayed, "delayed", 200_000, "delayed rows")
	flags.IntVar(&a.churned, "churned", 90_000, "messages delivered while an old transaction is open")
	flags.IntVar(&a.drained, "drained", 50_000, "messages of each drain")
	flags.IntVar(&a.passes, "passes", 5, "over all situations")
	only := flags.String("only", "", "only these situations, separated by commas, and the empty one")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	for text := range strings.SplitSeq(*archives, ",") {
		count, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-archive: %w", err)
		}
		a.archives = append(a.archives, count)
	}
	a.patience, a.pause = 20*time.Minute, 100*time.Millisecond
	server, err := newServer(ctx, os.Getenv("TXMSG_TEST_POSTGRES"))
	if err != nil {
		return err
	}
	g := &growth{server: server, amounts: a}
	defer g.close()
	for _, s := range situations(a) {
		if s.name == empty || selected(*only, s.name) {
			if err := g.prepare(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if err := g.measure(ctx); err != nil {
		return err
	}
	return g.judge(os.Stdout)
}

// growth is a run: several databases on one server, one for each situation, that are measured in turn.
type growth struct {
	server  *server
	amounts amounts
	places  []*site
}

func (g *growth) close() {
	for _, p := range g.places {
		p.close()
	}
}

func (g *growth) prepare(ctx context.Context, s situation) error {
	began := time.Now()
	p, err := g.open(ctx, s)
	if err != nil {
		return err
	}
	g.places = append(g.places, p)
	err = s.prepare(ctx, p)
	fmt.Fprintf(os.Stderr, "prepared %-24s in %s\n", s.name, time.Since(began).Round(time.Second))
	return err
}

// measure goes from situation to situation, pass by pass, so that each pass compares what was measured at about the same time.
func (g *growth) measure(ctx context.Context) error {
	for pass := range g.amounts.passes {
		for i := range g.places {
			p := g.places[(i+pass)%len(g.places)]
			if err := g.calm(ctx); err != nil {
				return err
			}
			found, err := p.measure(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Fprintf(os.Stderr, "pass %d  %-24s %s  load %s\n", pass+1, p.name, describe(found), loadAverage())
			p.samples = append(p.samples, found)
		}
	}
	return nil
}

// calm waits until autovacuum has done what the preparations gave it to do. It runs by itself: nobody calls VACUUM here. What an
// old transaction keeps it tries to remove again and again, so it is not waited for without end.
func (g *growth) calm(ctx context.Context) error {
	deadline := time.Now().Add(g.amounts.patience)
	for quiet := 0; quiet < 3 && time.Now().Before(deadline); {
		var workers int
		if err := g.server.row(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'`, &workers); err != nil {
			return err
		}
		if quiet++; workers > 0 {
			quiet = 0
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}

// figures of one pass in the order of the table.
var figures = []struct {
	name string
	flat func(p *site, got, ratio float64) bool
}{
	{"idle poll, buffers", func(p *site, got, ratio float64) bool { return within(got, ratio, p.allowed(0)) }},
	{"idle poll, ms", func(p *site, got, ratio float64) bool { return within(got, ratio, p.allowed(0)*bufferTime) }},
	{"full poll, buffers", func(p *site, got, ratio float64) bool { return within(got, ratio, p.allowed(batch)) }},
	{"full poll, ms", func(p *site, got, ratio float64) bool { return within(got, ratio, p.allowed(batch)*bufferTime) }},
	{"drain, messages/s", func(_ *site, _, ratio float64) bool { return ratio >= 1/flat }},
	{"status, ms", func(_ *site, got, _ float64) bool { return got <= statusMost }},
}

// within reports whether a figure without what is allowed is flat.
func within(got, ratio, allowed float64) bool { return (got-allowed)*ratio <= flat*got }

func describe(v values) string {
	var parts []string
	for _, f := range figures {
		if value, ok := v[f.name]; ok {
			parts = append(parts, f.name+" "+number(value))
		}
	}
	return strings.Join(parts, ", ")
}

// judge prints medians and their ratios, pass by pass, to the reference's, and returns an error if one is not flat.
func (g *growth) judge(to *os.File) error {
	byName := map[string]*site{}
	for _, p := range g.places {
		byName[p.name] = p
	}
	table := [][]string{{"situation", "by"}}
	for _, f := range figures {
		table[0] = append(table[0], f.name, "÷")
	}
	table[0] = append(table[0], "")
	bent := 0
	for _, p := range g.places {
		by := byName[p.by]
		if by == nil {
			by = byName[empty]
		}
		line, ok := []string{p.name, by.name}, true
		for _, f := range figures {
			value, ratio, found := compare(p.samples, by.samples, f.name)
			if !found {
				line = append(line, "", "")
				continue
			}
			line = append(line, number(value), number(ratio))
			ok = ok && f.flat(p, value, ratio)
		}
		verdict := "flat"
		switch {
		case p.reference:
			verdict = ""
		case !ok:
			verdict = "NOT FLAT"
			bent++
		}
		table = append(table, append(line, verdict))
	}
	fmt.Fprint(to, markdown(table))
	if bent > 0 {
		return fmt.Errorf("%d situations are not flat within %.0f %%", bent, (flat-1)*100)
	}
	return nil
}

// compare returns the median of a figure, and of its ratios to the reference's of the same pass.
func compare(samples, by []values, figure string) (value, ratio float64, found bool) {
	var all, ratios []float64
	for pass, sample := range samples {
		got, ok := sample[figure]
		reference, known := by[pass][figure]
		if ok && known && reference > 0 {
			all, ratios = append(all, got), append(ratios, got/reference)
		}
	}
	if len(all) == 0 {
		return 0, 0, false
	}
	_, value, _ = spread(all)
	_, ratio, _ = spread(ratios)
	return value, ratio, true
}

// middle is the median of what n calls found.
func middle(n int, call func() (float64, error)) (float64, error) {
	found := make([]float64, n)
	var errs error
	for i := range found {
		var err error
		found[i], err = call()
		errs = errors.Join(errs, err)
	}
	slices.Sort(found)
	return found[n/2], errs
}

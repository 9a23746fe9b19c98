package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/template"
	"unicode/utf8"
)

// results are all of a run, as they are kept in a file.
type results struct {
	Machine  [][2]string // facts
	Sizes    [][2]string
	Samples  []sample
	Profiles map[string]string // of works that missed a goal
}

func (r *results) save(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func load(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &results{}
	return r, json.Unmarshal(text, r)
}

// print writes the table of ratios, and a line for machines for each goal.
func (r *results) print(to io.Writer) {
	found, unjudged := rows(r.Samples)
	fmt.Fprint(to, ratioTable(found), "\n")
	for _, row := range found {
		if row.judged() {
			fmt.Fprintf(to, "ratio %s %.3f goal %s %v\n", row.goal.name, row.median, row.goal.op, row.goal.want)
		}
	}
	for _, name := range unjudged {
		fmt.Fprintf(os.Stderr, "not measured: %s\n", name)
	}
}

func ratioTable(found []row) string {
	table := [][]string{{"work", "of what", "who", "÷", "min", "median", "max", "goal", ""}}
	for _, r := range found {
		by, wanted, verdict := r.reference, "", ""
		if r.byWork != "" {
			by = "own, " + r.byWork
		}
		if r.judged() {
			wanted = r.goal.op + " " + fmt.Sprint(r.goal.want)
			verdict = map[bool]string{true: "met", false: "missed"}[r.met()]
		}
		table = append(table, []string{r.work, r.metric, r.contender, by, number(r.min), number(r.median), number(r.max), wanted, verdict})
	}
	return markdown(table)
}

// absolutes are what was measured, undivided.
func absolutes(samples []sample) string {
	table := [][]string{{"work", "what", "who", "min", "median", "max", "passes"}}
	for _, w := range works(full, true) {
		for _, metric := range metricsOf(samples, w.Name) {
			for _, contender := range contendersOf(samples, w.Name) {
				all := list(metrics(samples, w.Name, contender, metric))
				least, median, most := spread(all)
				if most == 0 {
					continue // no duplicates, nothing missing
				}
				table = append(table, []string{w.Name, metric, contender, number(least), number(median), number(most), fmt.Sprint(len(all))})
			}
		}
	}
	return markdown(table)
}

// metricsOf are the metrics of a work, in the order of the report.
func metricsOf(samples []sample, work string) (names []string) {
	for _, name := range []string{"tx/s", "messages/s", "p50 ms", "p99 ms", "max ms", "lag s", "WAL bytes/message", "WAL bytes/s", "db CPU us/message", "duplicates", "missing"} {
		for _, s := range samples {
			if _, ok := s.Values[name]; ok && s.Work == work {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// markdown is a table that reads well as it is, too.
func markdown(table [][]string) string {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	line := func(cells []string) {
		for i, cell := range cells {
			text.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + " ")
		}
		text.WriteString("|\n")
	}
	line(table[0])
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", max(width, 3))
		widths[i] = max(width, 3)
	}
	line(rule)
	for _, cells := range table[1:] {
		line(cells)
	}
	return text.String()
}

//go:embed benchmarks.md.tmpl
var document string

// write makes the document.
func (r *results) write(file string) error {
	found, _ := rows(r.Samples)
	missed := map[string][]string{}
	var order []string
	for _, row := range found {
		if row.judged() && !row.met() {
			if missed[row.work] == nil {
				order = append(order, row.work)
			}
			missed[row.work] = append(missed[row.work], fmt.Sprintf("%s: %s, wanted %s %v", row.metric, number(row.median), row.goal.op, row.goal.want))
		}
	}
	parsed, err := template.New("").Funcs(template.FuncMap{"missed": func(work string) []string { return missed[work] }}).Parse(document)
	if err != nil {
		return err
	}
	var text strings.Builder
	err = parsed.Execute(&text, map[string]any{
		"Machine": r.Machine, "Sizes": r.Sizes, "Ratios": ratioTable(found), "Absolutes": absolutes(r.Samples),
		"Warnings": r.warnings(), "Missed": order, "Profiles": r.Profiles, "Works": works(full, true),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// warnings say what makes the results worth less.
func (r *results) warnings() (found []string) {
	for _, fact := range r.Machine {
		var load float64
		if _, err := fmt.Sscan(fact[1], &load); err == nil && fact[0] == loadFact && load > float64(runtime.NumCPU())/2 {
			found = append(found, "Other programs kept the machine busy (load "+fact[1]+"): the ratios are not to be relied on.")
		}
	}
	for _, size := range r.Sizes {
		if size[0] == "rounds" && size[1] != fmt.Sprint(full.rounds) {
			found = append(found, "This was a trial of the command, with fewer rows and rounds than `make bench`.")
		}
	}
	return found
}

// missedWorks are those of works at which we missed a goal.
func missedWorks(all []work, samples []sample) (missed []work) {
	found, _ := rows(samples)
	for _, w := range all {
		for _, row := range found {
			if row.work == w.Name && row.judged() && !row.met() {
				missed = append(missed, w)
				break
			}
		}
	}
	return missed
}

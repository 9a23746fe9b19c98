package main

import (
	"slices"
	"strconv"
)

// goal is what a median must reach.
type goal struct {
	name string // of the line for machines
	op   string // ">=" or "<="
	want float64
}

func (g goal) met(got float64) bool {
	if g.op == ">=" {
		return got >= g.want
	}
	return got <= g.want
}

// comparison divides a metric of every contender by a reference's of the same pass. Without a reference it is the metric itself.
type comparison struct {
	work, metric string
	by           string // the reference
	byWork       string // of the reference, if it is another one: then a contender is its own reference
	goal         goal   // ours
	alone        bool   // of no interest but for us
}

// bestPeer stands for the peer whose median is the highest.
const bestPeer = "best peer"

var comparisons = []comparison{
	{work: "write", metric: "tx/s", by: bare.name, goal: goal{"write_to_no_message", ">=", 0.80}},
	{work: "write", metric: "tx/s", by: bestPeer, goal: goal{"write_to_best_peer", ">=", 1.05}, alone: true},
	{work: "write_relay", metric: "tx/s", by: hand.name, goal: goal{"write_relay_to_hand", ">=", 0.95}},
	{work: "write_relay", metric: "lag s", goal: goal{"write_relay_lag_seconds", "<=", 1}},
	{work: "write_relay", metric: "WAL bytes/message", by: hand.name, goal: goal{"wal_to_hand", "<=", 1.2}},
	{work: "write_relay", metric: "db CPU us/message", by: hand.name, goal: goal{"cpu_to_hand", "<=", 1.2}},
	{work: "drain_kafka", metric: "messages/s", by: hand.name, goal: goal{"drain_kafka_to_hand", ">=", 0.8}},
	{work: "drain_noop", metric: "messages/s", by: hand.name, goal: goal{"drain_noop_to_hand", ">=", 0.7}},
	{work: "backlog", metric: "messages/s", byWork: "drain_noop", goal: goal{"backlog_to_short", ">=", 0.9}},
	{work: "backlog", metric: "messages/s", by: hand.name},
	{work: "latency", metric: "p50 ms", by: logReader.name, goal: goal{"latency_p50_to_log", "<=", 2.2}},
	{work: "latency", metric: "p99 ms", by: logReader.name, goal: goal{"latency_p99_to_log", "<=", 1.8}},
	{work: "latency_apart", metric: "p50 ms", goal: goal{"latency_apart_p50_ms", "<=", 5}},
	{work: "idle", metric: "tx/s", goal: goal{"idle_tx_per_second", "<=", 2}},
}

// row is one contender's comparison over all passes.
type row struct {
	comparison
	contender        string
	reference        string // empty: none
	min, median, max float64
	passes           int
	ours             bool // and judged by the goal, if there is one
}

func (r row) judged() bool { return r.ours && r.goal.name != "" }

func (r row) met() bool { return r.goal.met(r.median) }

// rows are the comparisons that the samples allow, and the names of goals that none of them judges.
func rows(samples []sample) (found []row, unjudged []string) {
	for _, c := range comparisons {
		judged := false
		for _, contender := range contendersOf(samples, c.work) {
			ours := contender == us.name
			if c.alone && !ours || contender == c.by {
				continue
			}
			r := row{comparison: c, contender: contender, ours: ours, reference: c.by}
			switch {
			case c.by == bestPeer:
				r.reference = best(samples, c.work, c.metric)
			case c.byWork != "":
				r.reference = contender
			}
			if r.fill(samples) {
				found = append(found, r)
				judged = judged || ours
			}
		}
		if !judged && c.goal.name != "" {
			unjudged = append(unjudged, c.goal.name)
		}
	}
	return found, unjudged
}

// fill reports whether there was anything to compare.
func (r *row) fill(samples []sample) bool {
	var results []float64
	work := r.work
	if r.byWork != "" {
		work = r.byWork
	}
	for pass, value := range metrics(samples, r.work, r.contender, r.metric) {
		if r.by == "" && r.byWork == "" {
			results = append(results, value)
		} else if by := metrics(samples, work, r.reference, r.metric)[pass]; by > 0 {
			results = append(results, value/by)
		}
	}
	if len(results) == 0 {
		return false
	}
	r.min, r.median, r.max = spread(results)
	r.passes = len(results)
	return true
}

// metrics of one contender by pass.
func metrics(samples []sample, work, contender, metric string) map[int]float64 {
	found := map[int]float64{}
	for _, s := range samples {
		if value, ok := s.Values[metric]; ok && s.Work == work && s.Contender == contender {
			found[s.Pass] = value
		}
	}
	return found
}

func contendersOf(samples []sample, work string) (names []string) {
	for _, s := range samples {
		if s.Work == work && !slices.Contains(names, s.Contender) {
			names = append(names, s.Contender)
		}
	}
	order := []string{bare.name, hand.name, keeping.name, logReader.name, us.name, deleting.name}
	slices.SortStableFunc(names, func(a, b string) int { return place(order, a) - place(order, b) })
	return names
}

func place(order []string, name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

func best(samples []sample, work, metric string) (name string) {
	most := 0.0
	for _, contender := range contendersOf(samples, work) {
		if c, _ := contenderNamed(contender); !c.peer {
			continue
		}
		if _, median, _ := spread(list(metrics(samples, work, contender, metric))); median > most {
			name, most = contender, median
		}
	}
	return name
}

func list(byPass map[int]float64) (all []float64) {
	for _, value := range byPass {
		all = append(all, value)
	}
	return all
}

func spread(all []float64) (least, median, most float64) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	half := len(all) / 2
	median = all[half]
	if len(all)%2 == 0 {
		median = (all[half-1] + all[half]) / 2
	}
	return all[0], median, all[len(all)-1]
}

// number has three digits that say something.
func number(f float64) string {
	switch {
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	default:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
}

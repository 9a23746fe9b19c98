package main

import (
	"context"
	"fmt"
	"os"
	"sync"
)

const writers = 16

// values are what one measurement found, by metric.
type values map[string]float64

// work is something that contenders are measured at.
type work struct {
	Name       string
	Title      string
	contenders []contender
	passes     int // in each round
	measure    func(ctx context.Context, b *bench, c contender) (values, error)
}

// sample is one measurement. Samples of the same work and pass were taken one after the other and are compared.
type sample struct {
	Work, Contender string
	Pass            int
	Values          values
}

// sizes of the work.
type sizes struct {
	rounds       int
	writePasses  int // in a round: what a write costs differs least, so it takes most samples to see
	latePasses   int // of latency: its p99 is of a dozen messages
	transactions int // of each writer
	relayed      int // of each writer while the relay runs
	drained      int
	backlog      int
	latency      int // seconds
	settle, idle int // seconds
}

var (
	full  = sizes{rounds: 3, writePasses: 4, latePasses: 2, transactions: 300, relayed: 600, drained: 50_000, backlog: 500_000, latency: 8, settle: 11, idle: 20}
	quick = sizes{rounds: 2, writePasses: 4, latePasses: 1, transactions: 200, relayed: 300, drained: 20_000, backlog: 100_000, latency: 5, settle: 11, idle: 10}
)

func (s *sizes) divide(by int) {
	if by > 1 {
		s.rounds, s.writePasses, s.latePasses = 1, 1, 1
	}
	for _, size := range []*int{&s.transactions, &s.relayed, &s.drained, &s.backlog, &s.idle} {
		*size /= by
	}
}

func (s sizes) facts() [][2]string {
	return [][2]string{
		{"rounds", fmt.Sprint(s.rounds)},
		{"write", fmt.Sprintf("%d passes a round, %d transactions of each of %d writers", s.writePasses, s.transactions, writers)},
		{"write_relay", fmt.Sprintf("%d transactions of each writer", s.relayed)},
		{"drain_kafka, drain_noop", fmt.Sprintf("%d messages", s.drained)},
		{"backlog", fmt.Sprintf("%d messages", s.backlog)},
		{"latency, latency_apart", fmt.Sprintf("%d transactions a second for %d s, the first %d s are not counted; latency %d passes a round", latencyRate, s.latency, warmUp, s.latePasses)},
		{"idle", fmt.Sprintf("%d s", s.idle)},
	}
}

// works are all that is measured. Without peers, ours and the hand-written limits stand alone.
func works(s sizes, peers bool) []work {
	with := func(cs []contender, others ...contender) []contender {
		if peers {
			cs = append(cs, others...)
		}
		return cs
	}
	rivals := []contender{watermill, river, oagudo}
	relayed := append([]contender{keeping, deleting}, rivals...)
	return []work{
		{"write", "16 writers, business row and message", with([]contender{bare, us}, append([]contender{hand}, rivals...)...), s.writePasses, measureWrite},
		{"write_relay", "the same while the relay sends to Kafka, until all is delivered", with([]contender{hand, us}, relayed...), 1, measureWriteRelay},
		{"drain_kafka", "one relay process drains a backlog to Kafka", with([]contender{hand, us}, relayed...), 1, measureDrainKafka},
		{"drain_noop", "the same to a broker that costs nothing", with([]contender{hand, us}, relayed...), 1, measureDrain},
		{"backlog", "the same with a much longer backlog", with([]contender{us}, hand, deleting), 1, measureBacklog},
		{"latency", "from the commit's return to a Kafka consumer, writer and relay in one process", with([]contender{logReader, us}, watermill, river, oagudo, optimistic), s.latePasses, measureLatency},
		{"latency_apart", "the same with the writer in another process", with([]contender{us}, logReader), 1, measureLatencyApart},
		{"idle", "the relay with nothing to do", []contender{us}, 1, measureIdle},
	}
}

// bench is what measurements share.
type bench struct {
	server   *server
	kafka    string
	sizes    sizes
	profiles map[string]string // of our work; nil: none is taken
}

// run measures: in every round each work, in every pass each contender, beginning with another one each time.
func (b *bench) run(ctx context.Context, works []work) (samples []sample, failures int) {
	for round := range b.sizes.rounds {
		for _, w := range works {
			for pass := round * w.passes; pass < (round+1)*w.passes; pass++ {
				for i := range w.contenders {
					c := w.contenders[(i+pass)%len(w.contenders)]
					found, err := w.measure(ctx, b, c)
					if ctx.Err() != nil {
						return samples, failures + 1
					}
					if err != nil {
						failures++
						fmt.Fprintf(os.Stderr, "%s, %s: %v\n", w.Name, c.name, err)
						continue
					}
					fmt.Fprintf(os.Stderr, "round %d  %-14s %-20s %v\n", round+1, w.Name, c.name, found)
					samples = append(samples, sample{Work: w.Name, Contender: c.name, Pass: pass, Values: found})
				}
			}
		}
	}
	return samples, failures
}

// profile does the works once more, as ours, and returns what took the time.
func (b *bench) profile(ctx context.Context, works []work) map[string]string {
	b.profiles = map[string]string{}
	for _, w := range works {
		if _, err := w.measure(ctx, b, us); err != nil {
			fmt.Fprintf(os.Stderr, "profile of %s: %v\n", w.Name, err)
		}
	}
	return b.profiles
}

// stage is a contender's place in one measurement: a fresh database and a sink.
type stage struct {
	db      *database
	out     *sink
	subject subject
	close   func()
}

// stage prepares a contender. acks count what the sink acknowledges, if they are not nil.
func (b *bench) stage(ctx context.Context, c contender, toKafka bool, acks *tracker) (_ *stage, err error) {
	s := &stage{}
	var undo []func()
	s.close = func() {
		for i := range undo {
			undo[len(undo)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	address, topic := "", ""
	if toKafka {
		var drop func()
		if topic, drop, err = newTopic(ctx, b.kafka); err != nil {
			return nil, err
		}
		undo = append(undo, drop)
		address = b.kafka
	}
	if s.out, err = openSink(ctx, address, topic, acks); err != nil {
		return nil, err
	}
	undo = append(undo, s.out.close)
	if s.db, err = b.server.fresh(ctx); err != nil {
		return nil, err
	}
	undo = append(undo, func() { s.db.drop(context.WithoutCancel(ctx)) })
	if s.subject, err = c.open(s.db, s.out); err != nil {
		return nil, err
	}
	undo = append(undo, s.subject.close)
	if err = s.subject.setup(ctx); err != nil {
		return nil, err
	}
	return s, b.server.row(ctx, "CHECKPOINT")
}

// relay runs the subject's relay until stop is called, which returns its error.
func (s *stage) relay(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	var failed error
	wait.Go(func() { failed = s.subject.relay(ctx) })
	return func() error {
		cancel()
		wait.Wait()
		return failed
	}
}

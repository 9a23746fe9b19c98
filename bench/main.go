// Command bench compares localtable with hand-written limits and with other libraries. Its results and its method stand in
// docs/benchmarks.md, which it writes.
//
//	bench [-quick] [-work write,latency] [-who txmsg] [-profile] [-results file] [-docs file]
//	bench growth [-archive 1000000,10000000] [-pending 500000] […]
//	bench report -results file [-docs file]
//
// The servers are named by TXMSG_TEST_POSTGRES and TXMSG_TEST_KAFKA; run.sh starts those that are not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run, arguments := measure, os.Args[1:]
	if len(arguments) > 0 {
		switch arguments[0] {
		case "writer":
			run, arguments = runWriter, arguments[1:]
		case "growth":
			run, arguments = measureGrowth, arguments[1:]
		case "report":
			run, arguments = report, arguments[1:]
		}
	}
	if err := run(ctx, arguments); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	short := flags.Bool("quick", false, "fewer rows, no peers, and no profiles where a goal is missed")
	only := flags.String("work", "", "only these, separated by commas")
	who := flags.String("who", "", "only these contenders, separated by commas")
	scale := flags.Int("scale", 1, "divide the rows by this, to try the command")
	file := flags.String("results", "", "keep the results here")
	docs := flags.String("docs", "", "write the document here")
	profile := flags.Bool("profile", false, "measure nothing, print what takes our time")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	b := &bench{kafka: os.Getenv("TXMSG_TEST_KAFKA"), sizes: full}
	if *short {
		b.sizes = quick
	}
	b.sizes.divide(*scale)
	var err error
	if b.server, err = newServer(ctx, os.Getenv("TXMSG_TEST_POSTGRES")); err != nil {
		return err
	}
	r := &results{Sizes: b.sizes.facts()}
	if r.Machine, err = facts(ctx, b.server, b.kafka); err != nil {
		return err
	}
	todo := works(b.sizes, !*short)
	todo = slices.DeleteFunc(todo, func(w work) bool { return !selected(*only, w.Name) })
	for i, w := range todo {
		todo[i].contenders = slices.DeleteFunc(w.contenders, func(c contender) bool { return !selected(*who, c.name) })
	}
	if *profile {
		for work, text := range b.profile(ctx, todo) {
			fmt.Printf("%s\n\n%s\n", work, text)
		}
		return nil
	}
	var failures int
	r.Samples, failures = b.run(ctx, todo)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !*short {
		r.Profiles = b.profile(ctx, missedWorks(todo, r.Samples))
	}
	if err := r.publish(*file, *docs); err != nil {
		return err
	}
	if failures > 0 {
		return fmt.Errorf("%d measurements failed", failures)
	}
	return nil
}

// selected reports whether a list names something; an empty one names all.
func selected(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// report prints the results of an earlier run.
func report(_ context.Context, arguments []string) error {
	flags := flag.NewFlagSet("bench report", flag.ExitOnError)
	file := flags.String("results", "", "results of a run")
	docs := flags.String("docs", "", "write the document here")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	r, err := load(*file)
	if err != nil {
		return err
	}
	return r.publish("", *docs)
}

func (r *results) publish(file, docs string) error {
	if file != "" {
		if err := r.save(file); err != nil {
			return err
		}
	}
	if docs != "" {
		if err := r.write(docs); err != nil {
			return err
		}
	}
	r.print(os.Stdout)
	return nil
}

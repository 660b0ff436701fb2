package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stalemate-dev/stalemate/cmd/internal/fuzz"
	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// fuzzFlags are the flags of the fuzz command.
type fuzzFlags struct {
	reconcilers overrideFlag
	budget      time.Duration
	runs        int
	seed        int64
	workers     int
	corpus, out string
	shard       string
	memory      string
	stuck       time.Duration
	// k and n are the shard, bytes the memory.
	k, n    int
	bytes   int64
	outputs outputs
}

func (a *app) fuzzCommand() *cobra.Command {
	f := &fuzzFlags{}
	c := &cobra.Command{
		Use:   "fuzz DIR...",
		Short: "Explore all scenarios of directories for hours, in worker processes",
		Long: `Explores every scenario below the directories, in all entries of its matrix and all variants that the program registers: first
the schedules that were committed and those of the corpus, then the sweeps, then runs by seed, with fair shares of the time. Findings
are written to files at once, and shrunk. What kills a worker, hangs it or fills it costs one run, and is a finding, too.

The exploration can be interrupted, or killed: the same command goes on with it. See docs/fuzz.md.

Exit codes, in order of precedence:
  4  internal error
  2  the command line, a scenario or a property is wrong
  3  an operator under test is nondeterministic
  1  a property is broken, or a run did something to its process, in what is not known to be broken
  5  a committed schedule is stale
  6  not to be trusted, as a bug that is known was not found; or inconclusive, or interrupted
  0  nothing was found`,
		Example: `  stalemate fuzz scenarios --for 8h
  stalemate fuzz scenarios --runs 200 --corpus corpus --shard 2/4
  stalemate fuzz scenarios/clickhouse --for 10m --reconciler operator=clickhouse/patch-a`,
		Args: usageArgs(directories),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(c); err != nil {
				return usagef(c, err)
			}
			if err := f.outputs.complete(c); err != nil {
				return err
			}
			return a.fuzz(c.Context(), args, f)
		},
	}
	flags := c.Flags()
	f.reconcilers.register(c, "run `CONTROLLER=RECONCILER` instead of what the scenarios say, and no variants; may be repeated")
	flags.DurationVar(&f.budget, "for", 0, "explore for so much real `TIME`, such as 8h")
	flags.IntVar(&f.runs, "runs", 0, "explore with so many runs by seed of each target instead, the same ones each time")
	flags.Int64Var(&f.seed, "seed", 1, "seed of the first run by seed; the others count on from it")
	flags.IntVar(&f.workers, "workers", 0, "number of worker processes (default: one for each core)")
	flags.StringVar(&f.corpus, "corpus", "stalemate-corpus", "`DIR` of novel schedules, and of what is needed to go on")
	flags.StringVar(&f.out, "out", "", "write findings to `DIR` (default: findings in the corpus)")
	flags.StringVar(&f.shard, "shard", "1/1", "do the `K/N`-th part of the exploration, from 1/N; 'merge' joins the results")
	flags.StringVar(&f.memory, "memory", "2Gi", "most memory that a worker may have")
	flags.DurationVar(&f.stuck, "stuck", 30*time.Second, "give a run up that makes no step for so much real `TIME`")
	f.outputs.register(c)
	return c
}

// directories takes one directory or more.
func directories(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("no directory: name at least one that holds scenarios")
	}
	return nil
}

// complete checks the flags and fills in what they leave open.
func (f *fuzzFlags) complete(c *cobra.Command) error {
	set := c.Flags().Changed
	switch {
	case set("for") && set("runs"):
		return errors.New("--runs and --for are two ways to end: give one of them")
	case !set("for") && !set("runs"):
		return errors.New("--for or --runs says when it ends: give one of them")
	case set("for") && f.budget <= 0 || f.runs < 0 || set("workers") && f.workers <= 0 || f.stuck <= 0:
		return errors.New("--for, --workers and --stuck take positive values, and --runs none below zero")
	case f.stuck < minStuck:
		return fmt.Errorf("--stuck %s: want %s or more: a machine at work may take that long for a step of any run", f.stuck, minStuck)
	case f.corpus == "" || set("out") && f.out == "":
		return errors.New("--corpus and --out want names of directories: leave out what is not wanted")
	}
	if f.out == "" {
		f.out = filepath.Join(f.corpus, "findings")
	}
	if !set("runs") {
		f.runs = -1
	}
	first, second, ok := strings.Cut(f.shard, "/")
	k, err := strconv.Atoi(first)
	n, other := strconv.Atoi(second)
	if !ok || err != nil || other != nil || k < 1 || k > n {
		return fmt.Errorf("--shard %s: want K/N with K from 1 to N, such as 2/4", f.shard)
	}
	f.k, f.n = k, n
	quantity, err := resource.ParseQuantity(f.memory)
	if err != nil || quantity.Value() < minMemory {
		return fmt.Errorf("--memory %s: want 64Mi or more, such as 2Gi", f.memory)
	}
	f.bytes = quantity.Value()
	return f.reconcilers.complete()
}

// minMemory is less than any worker can do with, in bytes.
const minMemory = 64 << 20

// minStuck is how long a run may make no step at least, so that one which only has to wait for its turn does not count as stuck.
const minStuck = time.Second

// fuzz explores directories.
func (a *app) fuzz(ctx context.Context, dirs []string, f *fuzzFlags) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	status := newNightStatus(a.stderr)
	night, err := fuzz.Run(ctx, fuzz.Options{
		Dirs: dirs, Registry: a.registry, Reconcilers: f.reconcilers.overrides, Seed: f.seed, Runs: f.runs, For: f.budget,
		Workers: f.workers, Corpus: f.corpus, Out: f.out, Shard: f.k, Shards: f.n, Stuck: f.stuck, Memory: f.bytes,
		Worker: []string{program, workerCommand},
		Replay: func(file string) string { return a.replayLine(file, &replayFlags{times: 1}) },
		Status: status.update, Log: status.log,
	})
	status.clear()
	if _, ok := errors.AsType[fuzz.UsageError](err); ok {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return a.tellNight(night, f.out, &f.outputs)
}

// The files that fuzz writes beside the findings.
const (
	nightFile   = "night.json"
	summaryFile = "summary.txt"
)

// tellNight writes what a night came to, and takes its exit code.
func (a *app) tellNight(night *fuzz.Night, folder string, o *outputs) error {
	var content, whole strings.Builder
	if err := errors.Join(night.Encode(&content), night.Text(&whole, true)); err != nil {
		return err
	}
	err := errors.Join(reports.WriteFile(filepath.Join(folder, nightFile), []byte(content.String())),
		reports.WriteFile(filepath.Join(folder, summaryFile), []byte(whole.String())))
	if err != nil {
		return err
	}
	j := night.Judge()
	a.documentNight(night, j, o)
	for _, applies := range []struct {
		does bool
		exit Exit
	}{
		{len(j.Internal) > 0, ExitInternal},
		{len(j.Wrong) > 0, ExitUsage},
		{len(j.Nondeterministic) > 0, ExitNondeterministic},
		{len(j.Findings)+len(j.Deaths) > 0, ExitBroken},
		{len(j.Stale) > 0, ExitStale},
		{len(j.Untrusted)+len(j.Inconclusive) > 0 || night.Interrupted, ExitInconclusive},
	} {
		if applies.does {
			a.exit = stronger(a.exit, applies.exit)
		}
	}
	if err := errors.Join(o.write(a), night.Text(a.stdout, false)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "all of it is in %s, for 'merge' in %s\n", filepath.Join(folder, summaryFile),
		filepath.Join(folder, nightFile))
	return err
}

// documentNight adds what a night came to to the reports that go to files: what is not known to be broken, and what keeps the night from
// saying something.
func (a *app) documentNight(night *fuzz.Night, j *fuzz.Judgement, o *outputs) {
	for _, t := range night.Targets {
		if t.File == "" || t.Part.Units == 0 || !t.Fails() {
			continue
		}
		result := *t.Result()
		of := &runFlags{seed: night.Seed, runs: t.Seeds(), reconcilers: overrideFlag{pairs: pairs(t.Reconcilers)}}
		result.Command = a.commandLine(t.File, pairs(t.Values), of)
		o.add(reports.Document{Result: &result})
	}
	problem := func(name, text string) {
		o.add(reports.Document{Result: &history.Result{Header: history.Header{Scenario: name}}, Problem: text})
	}
	for _, d := range j.Deaths {
		problem(d.Name, d.Death.Text())
	}
	for _, list := range [][]string{j.Wrong, j.Nondeterministic, j.Internal, j.GivenUp, j.Untrusted} {
		for _, text := range list {
			problem("fuzz", text)
		}
	}
}

// pairs returns a map as flags have it: "name=value", sorted.
func pairs(m map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, name+"="+m[name])
	}
	return all
}

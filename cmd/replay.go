package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// replayFlags are the flags of the replay command.
type replayFlags struct {
	*outputs
	reconcilers overrideFlag
	times       int
	exact       bool
	whole       bool
	names       bool
}

func (a *app) replayCommand() *cobra.Command {
	f := &replayFlags{outputs: &outputs{}}
	c := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Replay schedules and report whether they still break what they broke",
		Long: `Runs each schedule once and compares with what it expects: the outcome, how many of its elements found their events, and
the hash of the history. A directory stands for the schedule files in it. Of several, a summary ends the report.

Exit codes, in order of precedence over several files:
  4  internal error
  2  the command line, a schedule, its scenario or a property is wrong
  3  replays of one schedule differ: the operator under test is nondeterministic
  1  a property is broken
  5  stale: nothing is broken, but part of the schedule found no event
  6  inconclusive: the run hit a limit
  0  all properties hold`,
		Example: `  stalemate replay scenarios/clickhouse/testdata/schedules
  stalemate replay finding.yaml --reconciler operator=clickhouse/patch-a
  stalemate replay finding.yaml --times 100
  stalemate replay finding.yaml --exact -v`,
		Args: usageArgs(files("schedule")),
		RunE: func(c *cobra.Command, args []string) error {
			if f.times < 1 {
				return usagef(c, errors.New("--times: want 1 or more"))
			}
			if err := f.reconcilers.complete(); err != nil {
				return usagef(c, err)
			}
			if err := f.complete(c); err != nil {
				return err
			}
			return a.replay(c.Context(), args, f)
		},
	}
	flags := c.Flags()
	f.reconcilers.register(c, "run `CONTROLLER=RECONCILER` instead of what the schedule and its scenario say; may be repeated")
	flags.IntVar(&f.times, "times", 1, "replay so often, and check that all histories are the same")
	flags.BoolVar(&f.exact, "exact", false, "follow the whole trace of the schedule, and say at which step the run departs from it")
	flags.BoolVarP(&f.whole, "verbose", "v", false, "tell the whole timeline, too")
	flags.BoolVar(&f.names, "names", false, "list all events of the run by the names that schedules have for them")
	f.register(c)
	return c
}

// replay replays files one after the other. A file that is wrong does not keep the others from being replayed.
func (a *app) replay(ctx context.Context, args []string, f *replayFlags) error {
	schedules, err := a.schedulesOf(args)
	if err != nil {
		return usageError{err}
	}
	err = each(a, schedules, func(file string) error { return f.noting(file, a.replayFile(ctx, file, f)) })
	return errors.Join(err, a.summarize(), f.write(a))
}

// schedulesOf returns the schedule files that arguments stand for: those in a directory, sorted, or the files themselves.
func (a *app) schedulesOf(args []string) ([]string, error) {
	var schedules []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil || !info.IsDir() {
			schedules = append(schedules, arg) // what is wrong with it, loading tells
			continue
		}
		inside, err := a.schedulesIn(arg)
		if err != nil {
			return nil, err
		}
		schedules = append(schedules, inside...)
	}
	return schedules, nil
}

// schedulesIn returns the schedule files in a directory, sorted. YAML of which it cannot be told what it holds counts, too, for
// a broken schedule must not go unnoticed.
func (a *app) schedulesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var schedules []string
	for _, entry := range entries {
		file := filepath.Join(folder, entry.Name())
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(file)) {
			continue
		}
		if holds, err := a.engine.holdsSchedule(file); holds || err != nil {
			schedules = append(schedules, file)
		}
	}
	if len(schedules) == 0 {
		return nil, fmt.Errorf("%s: no schedule in this directory: 'stalemate run SCENARIO --out %s' writes what it finds there",
			folder, reports.ShellQuote(folder))
	}
	return schedules, nil
}

// openSchedule loads a schedule file and puts it together.
func (a *app) openSchedule(file string, overrides map[string]string) (replayer, error) {
	holds, err := a.engine.holdsSchedule(file)
	if err != nil {
		return nil, usageError{err}
	}
	if !holds {
		return nil, usageError{fmt.Errorf("%s: a scenario, not a schedule: explore it with '%s run %s'", file, a.program,
			reports.ShellQuote(file))}
	}
	loaded, err := a.engine.loadSchedule(file)
	if err != nil {
		return nil, usageError{err}
	}
	ready, err := loaded.prepare(overrides)
	if err != nil {
		return nil, usageError{err}
	}
	return ready, nil
}

// replayFile replays one schedule and reports on it.
func (a *app) replayFile(ctx context.Context, file string, f *replayFlags) error {
	ready, err := a.openSchedule(file, f.reconcilers.overrides)
	if err != nil {
		return err
	}
	if f.exact && ready.schedule().Trace == nil {
		return usageError{fmt.Errorf("%s: the schedule has no trace: replay it without --exact", file)}
	}
	how := *f
	if how.exact, err = followsTrace(ready, f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	first, times, diverged, err := replayOften(ctx, ready, &how)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if first == nil {
		a.errorf("%v", f.noting(file, fmt.Errorf("%s: interrupted before it was replayed", file)))
		a.exit = stronger(a.exit, ExitInconclusive)
		return nil
	}
	result := &history.Result{Header: ready.header(), Diverged: diverged, Command: a.replayLine(file, &how)}
	told := &reports.Replayed{Replay: first, File: file, Times: times, Exact: how.exact}
	d := reports.Document{Result: result, Replay: told}
	a.exit = stronger(a.exit, exitOf(d.Verdict()))
	a.sum(d.Verdict(), file, result.Command, told.Run)
	f.add(d)
	return a.tell(d, f.whole, f.names)
}

// followsTrace reports whether a schedule is to be replayed by its trace: if that is asked for, or if its elements do not bring
// about what was recorded, and its trace does. An exploration writes such a schedule where constraints cannot express what a
// strategy did.
func followsTrace(ready replayer, f *replayFlags) (bool, error) {
	s := ready.schedule()
	if f.exact || s.Trace == nil || s.Expect.Outcome != schedule.Violated {
		return f.exact, nil
	}
	if s.Size() == 0 && len(s.Skip) == 0 { // it has nothing but its trace
		return true, nil
	}
	replay, err := ready.replay(false)
	if err != nil || replay.Run.Failed() {
		return false, err
	}
	replay, err = ready.replay(true)
	return err == nil && replay.Diverged == "" && replay.Run.Failed(), err
}

// replayOften replays a schedule until a replay differs from the first, or it was replayed often enough. It returns the first
// replay, nil if the context ended before it, how many there were, and where they went apart.
func replayOften(ctx context.Context, ready replayer, f *replayFlags) (first *history.Replay, times int, diverged string, err error) {
	for times < f.times && ctx.Err() == nil {
		replay, err := ready.replay(f.exact)
		if err != nil {
			return nil, 0, "", err
		}
		times++
		if first == nil {
			first = replay
			continue
		}
		if where := ready.differ(first.Run, replay.Run); where != "" {
			return first, times, fmt.Sprintf("replay %d, %s", times, where), nil
		}
	}
	return first, times, "", nil
}

// replayLine returns the line that replays a file again.
func (a *app) replayLine(file string, f *replayFlags) string {
	words := append([]string{a.program, "replay", reports.ShellQuote(file)}, f.reconcilers.words()...)
	if f.times != 1 {
		words = append(words, "--times", strconv.Itoa(f.times))
	}
	if f.exact {
		words = append(words, "--exact")
	}
	return strings.Join(words, " ")
}
